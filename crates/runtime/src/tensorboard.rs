//! TensorBoard event files, as far as scalars need them.
//!
//! A file is a row of TFRecords (length, masked CRC of it, bytes, masked CRC of them), each an
//! `Event` message of `tensorflow/core/util/event.proto`: `{1: wall_time double, 2: step int64,
//! 3: file_version string, 5: summary {1: value {1: tag string, 2: simple_value float}}}`. They are
//! few and frozen, so they are written by hand.

use std::io::{self, Write};

/// The record that opens a file. `wall_time` is in seconds since 1970.
///
/// # Errors
/// When `output` fails.
pub fn write_header(output: &mut impl Write, wall_time: f64) -> io::Result<()> {
    let mut event = Vec::new();
    double(&mut event, 1, wall_time);
    bytes(&mut event, 3, b"brain.Event:2");
    write_record(output, &event)
}

/// The scalars of one step, in one record.
///
/// # Errors
/// When `output` fails.
pub fn write_scalars<'a>(
    output: &mut impl Write,
    wall_time: f64,
    step: u64,
    scalars: impl IntoIterator<Item = (&'a str, f64)>,
) -> io::Result<()> {
    let mut summary = Vec::new();
    for (tag, value) in scalars {
        let mut scalar = Vec::new();
        bytes(&mut scalar, 1, tag.as_bytes());
        float(&mut scalar, 2, value as f32);
        bytes(&mut summary, 1, &scalar);
    }
    let mut event = Vec::new();
    double(&mut event, 1, wall_time);
    key(&mut event, 2, VARINT);
    varint(&mut event, step);
    bytes(&mut event, 5, &summary);
    write_record(output, &event)
}

fn write_record(output: &mut impl Write, event: &[u8]) -> io::Result<()> {
    let length = (event.len() as u64).to_le_bytes();
    output.write_all(&length)?;
    output.write_all(&masked_crc(&length).to_le_bytes())?;
    output.write_all(event)?;
    output.write_all(&masked_crc(event).to_le_bytes())
}

/// The checksum of a TFRecord: rotated and shifted, so that a record may hold records.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

// Wire types of protocol buffers.
const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const LENGTH: u64 = 2;
const FIXED32: u64 = 5;

fn key(to: &mut Vec<u8>, field: u64, wire_type: u64) {
    varint(to, field << 3 | wire_type);
}

fn varint(to: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        to.push(value as u8 | 0x80);
        value >>= 7;
    }
    to.push(value as u8);
}

fn double(to: &mut Vec<u8>, field: u64, value: f64) {
    key(to, field, FIXED64);
    to.extend(value.to_le_bytes());
}

fn float(to: &mut Vec<u8>, field: u64, value: f32) {
    key(to, field, FIXED32);
    to.extend(value.to_le_bytes());
}

fn bytes(to: &mut Vec<u8>, field: u64, value: &[u8]) {
    key(to, field, LENGTH);
    varint(to, value.len() as u64);
    to.extend(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn events_are_what_tensorboard_itself_encodes() {
        // Made with tensorboard 2.21: event_pb2.Event(wall_time=1.5, file_version="brain.Event:2"),
        // and Event(wall_time=1.5, step=3, summary=[Value(tag="a/b", simple_value=0.5)]).
        let mut header = Vec::new();
        write_header(&mut header, 1.5).unwrap();
        assert_eq!(
            hex(&header[12..header.len() - 4]),
            "09000000000000f83f1a0d627261696e2e4576656e743a32"
        );
        let mut scalars = Vec::new();
        write_scalars(&mut scalars, 1.5, 3, [("a/b", 0.5)]).unwrap();
        assert_eq!(
            hex(&scalars[12..scalars.len() - 4]),
            "09000000000000f83f10032a0c0a0a0a03612f62150000003f"
        );
        assert_eq!(scalars[..8], 25u64.to_le_bytes());
    }

    #[test]
    fn integers_take_seven_bits_a_byte() {
        for (value, expected) in [(0, "00"), (127, "7f"), (128, "8001"), (300, "ac02")] {
            let mut found = Vec::new();
            varint(&mut found, value);
            assert_eq!(hex(&found), expected, "{value}");
        }
    }

    #[test]
    fn the_checksum_is_that_of_the_tfrecord_format() {
        // crc32c("123456789") = e3069283; rotated right by 15: 2507c60d; plus a282ead8: c78ab0e5.
        assert_eq!(masked_crc(b"123456789"), 0xc78a_b0e5);
    }
}
