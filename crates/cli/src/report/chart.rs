//! Line charts over the steps of a run, as SVG.

use anyhow::anyhow;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// Width and height of a chart in its own units; the page scales it.
const SIZE: (u32, u32) = (560, 270);
/// Steps without a value over which no line is drawn: a phase of the other actor.
const GAP: f64 = 8.0;
const TEXT: RGBColor = RGBColor(90, 98, 112);
const GRID: RGBColor = RGBColor(229, 232, 238);
const SHADE: RGBColor = RGBColor(243, 244, 248);

/// The colours of series, in the order they are used.
pub const PALETTE: [RGBColor; 6] = [
    RGBColor(31, 99, 209),
    RGBColor(217, 95, 14),
    RGBColor(24, 132, 84),
    RGBColor(132, 66, 178),
    RGBColor(178, 42, 68),
    RGBColor(88, 110, 117),
];

/// A chart over steps.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// What is drawn.
    pub series: Vec<Series>,
    /// Stretches of steps that are shaded: evaluator phases.
    pub shaded: Vec<(f64, f64)>,
    /// Whether the vertical axis begins at 0.
    pub from_zero: bool,
}

/// A line.
#[derive(Debug, Clone)]
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour.
    pub color: RGBColor,
    /// `(step, value)`.
    pub points: Vec<(f64, f64)>,
    /// `(step, lower, upper)` of a band around it; may be empty.
    pub band: Vec<(f64, f64, f64)>,
    /// Whether each point is marked.
    pub marked: bool,
}

impl Series {
    /// A line in the palette's `index`-th colour.
    #[must_use]
    pub fn new(name: &str, index: usize, points: Vec<(f64, f64)>) -> Self {
        let color = PALETTE[index % PALETTE.len()];
        Self { name: name.to_owned(), color, points, band: Vec::new(), marked: false }
    }

    /// With a dot at each point.
    #[must_use]
    pub fn marked(self) -> Self {
        Self { marked: true, ..self }
    }

    /// Its points in lines: one that is not marked breaks off where nothing was measured.
    fn lines(&self) -> impl Iterator<Item = &[(f64, f64)]> {
        let gap = if self.marked { f64::INFINITY } else { GAP };
        self.points.chunk_by(move |before, after| after.0 - before.0 <= gap)
    }

    /// The same line as the mean of each stretch of `window` points.
    #[must_use]
    pub fn smoothed(self, window: usize) -> Self {
        let mean = |part: &[(f64, f64)]| {
            let n = part.len() as f64;
            part.iter().fold((0.0, 0.0), |(x, y), p| (x + p.0 / n, y + p.1 / n))
        };
        let points = self.points.chunks(window.max(1)).map(mean).collect();
        Self { points, ..self }
    }
}

impl Chart {
    /// Whether there is anything to draw.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty())
    }

    /// The chart as an `<svg>` element.
    ///
    /// # Errors
    /// If the numbers cannot be drawn (an infinite range).
    pub fn svg(&self) -> anyhow::Result<String> {
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
            self.draw(&area).map_err(|error| anyhow!("draw a chart: {error}"))?;
        }
        Ok(svg)
    }

    fn draw(
        &self,
        area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    ) -> Result<(), Box<dyn std::error::Error>> {
        let (xs, ys) = self.ranges();
        let (low, high) = (ys.start, ys.end);
        let mut chart = ChartBuilder::on(area)
            .margin(8)
            .margin_right(18)
            .x_label_area_size(40)
            .y_label_area_size(56)
            .build_cartesian_2d(xs, ys)?;
        for &(from, to) in &self.shaded {
            let corners = [(from, low), (to, high)];
            chart.draw_series([Rectangle::new(corners, SHADE.filled())])?;
        }
        let text = ("sans-serif", 15).into_font().color(&TEXT);
        let centred = text.clone().pos(Pos::new(HPos::Center, VPos::Top));
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(GRID)
            .light_line_style(TRANSPARENT)
            .axis_style(GRID)
            .x_labels(7)
            .y_labels(6)
            .x_desc("step")
            .axis_desc_style(text.clone())
            .x_label_style(centred)
            .y_label_style(text)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|y| tick(*y, high - low))
            .draw()?;
        for series in &self.series {
            let band: Vec<(f64, f64)> = series
                .band
                .iter()
                .map(|b| (b.0, b.1))
                .chain(series.band.iter().rev().map(|b| (b.0, b.2)))
                .collect();
            if !band.is_empty() {
                chart.draw_series([Polygon::new(band, series.color.mix(0.14))])?;
            }
            let style = series.color.stroke_width(2);
            for line in series.lines() {
                chart.draw_series(LineSeries::new(line.iter().copied(), style))?;
            }
            if series.marked {
                let dot = |&point: &(f64, f64)| Circle::new(point, 3, series.color.filled());
                chart.draw_series(series.points.iter().map(dot))?;
            }
        }
        area.present()?;
        Ok(())
    }

    fn ranges(&self) -> (std::ops::Range<f64>, std::ops::Range<f64>) {
        let points = || self.series.iter().flat_map(|series| &series.points);
        let bands = || self.series.iter().flat_map(|series| &series.band);
        let ends = self.shaded.iter().flat_map(|&(from, to)| [from, to]);
        let (x0, x1) = span(points().map(|p| p.0).chain(ends));
        let ys = points().map(|p| p.1).chain(bands().flat_map(|b| [b.1, b.2]));
        let (mut y0, y1) = span(ys);
        if self.from_zero {
            y0 = y0.min(0.0);
        }
        let room = if y1 > y0 { 0.06 * (y1 - y0) } else { 0.5 };
        let floor = if self.from_zero && y0 == 0.0 { 0.0 } else { y0 - room };
        (x0..x1.max(x0 + 1.0), floor..y1 + room)
    }
}

/// A label with as many decimals as its axis needs.
fn tick(value: f64, span: f64) -> String {
    match span {
        s if s < 0.02 => format!("{value:.4}"),
        s if s < 0.2 => format!("{value:.3}"),
        s if s < 4.0 => format!("{value:.2}"),
        s if s < 40.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

/// The least and the greatest value; 0 and 0 of nothing.
fn span(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let ends = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(v), b.max(v)));
    if ends.0.is_finite() { ends } else { (0.0, 0.0) }
}

/// `#rrggbb`.
#[must_use]
pub fn css(color: RGBColor) -> String {
    format!("#{:02x}{:02x}{:02x}", color.0, color.1, color.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chart_of_one_point_or_of_equal_values_is_drawn() {
        for points in [vec![(3.0, 0.5)], vec![(0.0, 0.0), (1.0, 0.0)]] {
            let series = vec![Series::new("a", 0, points).marked()];
            let svg = Chart { series, ..Chart::default() }.svg().unwrap();
            assert!(svg.starts_with("<svg") && svg.contains("circle"), "{svg}");
        }
    }

    #[test]
    fn lines_break_off_where_nothing_was_measured() {
        let points = vec![(0.0, 1.0), (3.0, 1.0), (50.0, 2.0)];
        let line = Series::new("a", 0, points);
        assert_eq!(line.lines().map(<[_]>::len).collect::<Vec<_>>(), [2, 1]);
        assert_eq!(line.marked().lines().count(), 1);
    }

    #[test]
    fn smoothing_keeps_the_mean() {
        let line = Series::new("a", 0, (0..10).map(|i| (f64::from(i), f64::from(i))).collect());
        assert_eq!(line.smoothed(5).points, [(2.0, 2.0), (7.0, 7.0)]);
    }
}
