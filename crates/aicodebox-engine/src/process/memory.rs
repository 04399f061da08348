//! The memory of the server itself.
#![expect(unsafe_code, reason = "madvise and malloc_trim")]

use std::{fs, ptr};

use nix::libc;

/// From so many bytes on, what is allocated is a mapping of its own, which is gone when it is freed.
#[cfg(target_env = "gnu")]
const LARGE: libc::c_int = 128 << 10;

/// Has the allocator return every large block, for the beginning of a program. By itself glibc raises the bound to
/// 32 MiB as it goes, and keeps what is freed below that: an answer that grows leaves its former places behind.
pub fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number.
    let _known = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

/// Gives back what is not needed when there is nothing to do: free memory that the allocator holds, and the program's
/// own code, of which what is used again comes back by itself. Takes less than a millisecond or two.
///
/// The kernel maps 128 KiB around whatever is touched, and the start touches a little of everything once: 12 MB of
/// code were mapped in an idle server, which went on to use less than 2. A run of much output left 12 MB of free
/// memory with the allocator.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: touches nothing but what is free.
    let _any = unsafe { libc::malloc_trim(0) };
    let Ok(maps) = fs::read_to_string("/proc/self/maps") else { return };
    for (start, end) in maps.lines().filter_map(code) {
        // SAFETY: no page of a mapping that was never writable differs from its file, where it is read again.
        let _refused = unsafe {
            libc::madvise(ptr::with_exposed_provenance_mut(start), end - start, libc::MADV_DONTNEED)
        };
    }
}

/// Where a line of `/proc/self/maps` is about code that comes from a file: from and up to which address.
fn code(line: &str) -> Option<(usize, usize)> {
    let mut words = line.split_ascii_whitespace();
    let (range, mode, _offset, _device, inode) =
        (words.next()?, words.next()?, words.next()?, words.next()?, words.next()?);
    if mode != "r-xp" || inode == "0" {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    Some((usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// KiB of this process that are code from files.
    fn mapped_code() -> u64 {
        let maps = fs::read_to_string("/proc/self/smaps").unwrap();
        let mut of_code = false;
        let mut sum = 0;
        for line in maps.lines() {
            match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                ["Rss:", kib, "kB"] if of_code => sum += kib.parse::<u64>().unwrap(),
                [first, ..] if !first.ends_with(':') => of_code = code(line).is_some(),
                _ => {}
            }
        }
        sum
    }

    #[test]
    fn code_that_is_not_used_any_more_is_unmapped() {
        // All of it, as a start would do in time.
        for (start, end) in fs::read_to_string("/proc/self/maps").unwrap().lines().filter_map(code) {
            let from = ptr::with_exposed_provenance_mut(start);
            // SAFETY: reads ahead.
            assert_eq!(unsafe { libc::madvise(from, end - start, libc::MADV_POPULATE_READ) }, 0);
        }
        let before = mapped_code();
        give_memory_back();
        let after = mapped_code();
        assert!(after * 4 < before, "{before} KiB before, {after} after");
    }

    #[test]
    fn only_code_from_a_file_counts() {
        let line = "55d0d0000000-55d0d0001000 r-xp 00002000 fe:00 77    /opt/a b";
        assert_eq!(code(line), Some((0x55d0_d000_0000, 0x55d0_d000_1000)));
        for other in [
            "55d0d0000000-55d0d0001000 r--p 00002000 fe:00 77    /opt/relocated",
            "55d0d0000000-55d0d0001000 rw-p 00002000 fe:00 77    /opt/written",
            "7ffc0d5fe000-7ffc0d600000 r-xp 00000000 00:00 0     [vdso]",
            "",
        ] {
            assert_eq!(code(other), None, "{other}");
        }
    }
}
