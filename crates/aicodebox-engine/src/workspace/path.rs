use std::path::{Component, Path, PathBuf};

/// Why a text is no path below a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BadPath {
    /// It begins with `/`.
    Absolute,
    /// It contains `..`.
    Escapes,
}

/// The path without `.` and doubled slashes; empty = the directory itself. This only refuses what can never be
/// meant: what a path leads to is decided by the kernel when it is opened.
pub(super) fn relative(text: &str) -> Result<PathBuf, BadPath> {
    let mut clean = PathBuf::new();
    for component in Path::new(text).components() {
        match component {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return Err(BadPath::Absolute),
            Component::ParentDir => return Err(BadPath::Escapes),
        }
    }
    Ok(clean)
}

/// A path as it is told in errors: its first 200 characters.
pub(super) fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn prop_what_comes_out_has_only_names(text in "(\\.|/|a|\u{e9}|\\.\\.|\0| ){0,12}") {
            if let Ok(path) = relative(&text) {
                prop_assert!(path.components().all(|part| matches!(part, Component::Normal(_))));
                prop_assert_eq!(relative(path.to_str().unwrap()), Ok(path.clone()));
            }
        }
    }
}
