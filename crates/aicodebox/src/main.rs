//! The box: see the README.

fn main() {}
