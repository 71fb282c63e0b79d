//! Standard output. A reader that has gone ends the command quietly, a full disk ends it with an
//! error: neither is a reason to panic.

use std::fmt;
use std::io::{self, Write};
use std::process;

/// `println!`, but see the module.
macro_rules! say {
    ($($text:tt)*) => { $crate::say::text(format_args!("{}\n", format_args!($($text)*))) };
}
pub(crate) use say;

/// Writes a text as it is.
pub fn text(text: fmt::Arguments<'_>) {
    let mut out = io::stdout().lock();
    let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) else {
        return;
    };
    if error.kind() == io::ErrorKind::BrokenPipe {
        process::exit(0);
    }
    eprintln!("error: write to standard output: {error}");
    process::exit(1);
}
