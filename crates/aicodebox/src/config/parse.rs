//! Reads the values of variables. `None` = not such a value.

use std::{net::IpAddr, time::Duration};

/// `1 true yes on` or `0 false no off`, in any case.
pub(crate) fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Some(true),
        "0" | "false" | "no" | "off" => Some(false),
        _ => None,
    }
}

/// A whole number and `s`, `m`, `h` or `d`; more than zero, at most ten years.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let total = number.checked_mul(seconds)?;
    (1..=3_650 * 86_400).contains(&total).then_some(Duration::from_secs(total))
}

/// A duration, or a word for "no limit".
pub(crate) fn limit(text: &str) -> Option<Option<Duration>> {
    match text.to_ascii_lowercase().as_str() {
        "off" | "none" | "0" => Some(None),
        _ => duration(text).map(Some),
    }
}

/// A whole number of bytes, or with `KiB MiB GiB TiB` or `kB MB GB TB`; more than zero.
pub(crate) fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let unit = unit.to_ascii_lowercase();
    let (prefix, base): (_, u64) = match unit.strip_suffix("ib").or(unit.strip_suffix('b')) {
        Some(prefix) if unit.ends_with("ib") => (prefix, 1024),
        Some(prefix) => (prefix, 1000),
        None if unit.is_empty() => ("", 1),
        None => return None,
    };
    let power = match prefix {
        "" if base != 1024 => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        _ => return None,
    };
    number.checked_mul(base.pow(power)).filter(|bytes| *bytes > 0)
}

/// A number and what follows it.
fn split(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    Some((number.parse().ok()?, unit.trim_start()))
}

/// A whole number that is not zero.
pub(crate) fn count(text: &str) -> Option<usize> {
    text.parse().ok().filter(|count| *count > 0)
}

/// A whole number.
pub(crate) fn number(text: &str) -> Option<usize> {
    text.parse().ok()
}

/// A port; 0 means any.
pub(crate) fn port(text: &str) -> Option<u16> {
    text.parse().ok()
}

/// An IP address, in brackets or not, or `localhost`.
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    if text.eq_ignore_ascii_case("localhost") {
        return Some(IpAddr::from([127, 0, 0, 1]));
    }
    text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(text).parse().ok()
}

/// The parts between commas, without blanks around them and without empty ones.
pub(crate) fn list(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn booleans() {
        for yes in ["1", "true", "YES", "On"] {
            assert_eq!(boolean(yes), Some(true), "{yes}");
        }
        for no in ["0", "false", "No", "OFF"] {
            assert_eq!(boolean(no), Some(false), "{no}");
        }
        for neither in ["2", "y", " ", "enable"] {
            assert_eq!(boolean(neither), None, "{neither}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("30s"), Some(Duration::from_secs(30)));
        assert_eq!(duration("5m"), Some(Duration::from_secs(300)));
        assert_eq!(duration("2h"), Some(Duration::from_secs(7_200)));
        assert_eq!(duration("7d"), Some(Duration::from_secs(604_800)));
        for wrong in
            ["", "30", "s", "-1s", "1w", "1.5h", "0s", "99999999999999999999s", "999999999999999999d"]
        {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
        assert_eq!(limit("off"), Some(None));
        assert_eq!(limit("1m"), Some(Some(Duration::from_secs(60))));
        assert_eq!(limit("soon"), None);
    }

    #[test]
    fn sizes() {
        assert_eq!(size("10MiB"), Some(10 << 20));
        assert_eq!(size("64 kib"), Some(64 << 10));
        assert_eq!(size("2GiB"), Some(2 << 30));
        assert_eq!(size("2MB"), Some(2_000_000));
        assert_eq!(size("512"), Some(512));
        assert_eq!(size("512B"), Some(512));
        for wrong in ["", "0", "MiB", "10M", "10XiB", "1iB", "-1", "99999999TiB"] {
            assert_eq!(size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(address("localhost"), Some([127, 0, 0, 1].into()));
        assert_eq!(address("0.0.0.0"), Some([0, 0, 0, 0].into()));
        assert_eq!(address("[::1]"), address("::1"));
        assert!(address("::1").is_some_and(|address| address.is_loopback()));
        assert_eq!(address("example.org"), None);
    }

    #[test]
    fn lists() {
        assert_eq!(list(" a, b ,,c "), ["a", "b", "c"]);
        assert!(list(" , ").is_empty());
    }
}
