//! Whatever bytes an agent prints, and however they are cut: the outcome is the same.
#![no_main]

use std::sync::LazyLock;

use aicodebox_engine::adapter::{FileAdapter, Recording, builtin_names, load_adapter, replay};
use libfuzzer_sys::fuzz_target;

static ADAPTERS: LazyLock<Vec<FileAdapter>> =
    LazyLock::new(|| builtin_names().map(|name| load_adapter(name).unwrap()).collect());

fuzz_target!(|input: &[u8]| {
    // The first bytes say which adapter, where the output is cut, and what of it comes on standard error.
    let [which, cut, errors, exit, output @ ..] = input else { return };
    let adapter = &ADAPTERS[usize::from(*which) % ADAPTERS.len()];
    let (stderr, stdout) = output.split_at(output.len() * usize::from(errors % 4) / 8);
    let read = |stdout: &[&[u8]], stderr: &[&[u8]]| {
        replay(adapter, &Recording { stdout, stderr, exit: i32::from(exit % 2), ..Recording::default() })
    };
    let pieces = |bytes| <[u8]>::chunks(bytes, usize::from(*cut) + 1).collect::<Vec<_>>();
    assert_eq!(read(&pieces(stdout), &pieces(stderr)), read(&[stdout], &[stderr]));
});
