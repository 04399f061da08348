//! Whatever path is asked for: neither a workspace nor a file is found outside of the root, and nothing is made there.
#![no_main]

use std::{fs, os::unix::fs::symlink, path::PathBuf, sync::LazyLock};

use aicodebox_engine::workspace::{Condition, Found, Workspaces};
use libfuzzer_sys::fuzz_target;
use tokio::runtime::{Builder, Runtime};

/// What lies in the root from the beginning: a file, and links to the root, to its sibling, to `/`, and to nothing.
const KNOWN: [&str; 5] = ["f", "d", "o", "r", "n"];

struct World {
    directory: tempfile::TempDir,
    workspaces: Workspaces,
    runtime: Runtime,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let (root, outside) = (directory.path().join("root"), directory.path().join("outside"));
    fs::create_dir(&root).unwrap();
    fs::create_dir(&outside).unwrap();
    fs::write(root.join("f"), "inside").unwrap();
    fs::write(outside.join("s"), "secret").unwrap();
    for (name, target) in [("d", "."), ("o", "../outside"), ("r", "/"), ("n", "../none")] {
        symlink(target, root.join(name)).unwrap();
    }
    let workspaces = Workspaces::open(&root).unwrap();
    World { directory, workspaces, runtime: Builder::new_current_thread().build().unwrap() }
});

impl World {
    fn root(&self) -> PathBuf {
        self.workspaces.path().to_owned()
    }

    /// Takes away what this path has made, so that the next one finds the same world.
    fn tidy(&self) {
        for entry in fs::read_dir(self.root()).unwrap().map(Result::unwrap) {
            if !KNOWN.iter().any(|known| entry.file_name() == *known) {
                fs::remove_dir_all(entry.path()).unwrap_or_else(|_| fs::remove_file(entry.path()).unwrap());
            }
        }
    }
}

fuzz_target!(|path: &str| {
    let world = &*WORLD;
    let files = world.workspaces.files();
    world.runtime.block_on(async {
        if let Ok(Found::File(file)) = files.find(path).await {
            assert_eq!(file.read(100).await.unwrap(), b"inside");
        }
        // A path that would replace or follow a link, or take away what is known, is for the tests.
        if !KNOWN.contains(&path.trim_matches(['/', '.']))
            && let Ok(mut upload) = files.write(path, 100, Condition::Missing).await
        {
            upload.push(b"made").await.unwrap();
            let _conflict = upload.finish().await;
        }
    });
    if let Ok(workspace) = world.workspaces.resolve(path) {
        assert!(workspace.path.starts_with(world.root()), "{}", workspace.path.display());
    }
    assert_eq!(fs::read_dir(world.directory.path()).unwrap().count(), 2);
    assert_eq!(fs::read_dir(world.directory.path().join("outside")).unwrap().count(), 1);
    world.tidy();
});
