use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::{fs, thread};

use super::*;
use crate::Blame;

fn empty_folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tilec-test-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    write_whole(path, |file| file.write_all(text.as_bytes()))
}

#[test]
fn a_failure_leaves_what_was_there() {
    let folder = empty_folder("whole");
    let path = folder.join("x.npy");
    write(&path, "first").unwrap();
    let fails =
        write_whole(&path, |file| file.write_all(b"half").and(Err(io::Error::other("full"))));
    assert_eq!(fails.unwrap_err().to_string(), "full");
    assert_eq!(fs::read_to_string(&path).unwrap(), "first");
    can_be_written(&path).unwrap();
    can_be_written(&folder.join("other")).unwrap();
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    write(&path, "second").unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "second");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn readers_of_a_file_with_many_writers_see_whole_contents() {
    let folder = empty_folder("writers");
    let path = folder.join("w.safetensors");
    // An unfinished file of another process, and a file that only looks similar.
    let foreign = [".tilec-aaaaaaaaaaaa.part", "w.safetensors.1.part"];
    foreign.iter().for_each(|name| fs::write(folder.join(name), "foreign").unwrap());
    let unfinished = File::open(folder.join(foreign[0])).unwrap();
    unfinished.lock().unwrap();
    let content = |writer: usize| format!("{writer}").repeat(100_000 + writer);
    thread::scope(|scope| {
        let writers: Vec<_> = (1..5)
            .map(|writer| {
                let (path, content) = (&path, content(writer));
                scope.spawn(move || (0..20).for_each(|_| write(path, &content).unwrap()))
            })
            .collect();
        while writers.iter().any(|writer| !writer.is_finished()) {
            if let Ok(text) = fs::read_to_string(&path) {
                assert!((1..5).any(|writer| text == content(writer)), "{} bytes", text.len());
            }
        }
    });
    assert!(foreign.iter().all(|name| fs::read_to_string(folder.join(name)).unwrap() == "foreign"));
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 3);

    // The other process is killed. The next file that replaces one clears up after it.
    drop(unfinished);
    write(&path, "last").unwrap();
    assert!(!folder.join(foreign[0]).exists() && folder.join(foreign[1]).exists());
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn it_is_said_whose_fault_an_error_is() {
    let folder = empty_folder("blamed");
    let blame = |path: &Path| {
        let error = write(path, "text").unwrap_err();
        assert_eq!(can_be_written(path).map_err(|error| error.to_string()), Err(error.to_string()));
        (Blame::of_writing(&error), error.to_string())
    };
    let (who, what) = blame(&folder.join("nowhere/x.npy"));
    assert_eq!((who, what.as_str()), (Blame::Input, "No such file or directory (os error 2)"));
    assert_eq!(blame(&folder.join("n".repeat(300))).0, Blame::Input);
    write(&folder.join("file"), "text").unwrap();
    assert_eq!(blame(&folder.join("file/x.npy")).0, Blame::Input);
    fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
mod unix {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    use super::*;

    #[test]
    fn links_and_devices_stay() {
        let folder = empty_folder("linked");
        let (file, link) = (folder.join("file"), folder.join("link"));
        for (target, name) in [("file", "link"), ("link", "chain")] {
            symlink(target, folder.join(name)).unwrap();
        }
        // The first link points to a file that does not exist yet.
        for (path, text) in [(&link, "first"), (&folder.join("chain"), "second")] {
            write(path, text).unwrap();
            assert!(path.is_symlink() && link.is_symlink());
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
        symlink("loop", folder.join("loop")).unwrap();
        write(&folder.join("loop"), "none").unwrap_err();
        write(Path::new("/dev/null"), "none").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 4);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_disk_is_the_fault_of_the_machine() {
        let error = write(Path::new("/dev/full"), "text").unwrap_err();
        assert_eq!(
            (error.kind(), Blame::of_writing(&error)),
            (io::ErrorKind::StorageFull, Blame::Machine)
        );
    }

    #[test]
    fn a_file_has_the_permissions_of_any_other() {
        let folder = empty_folder("permitted");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::write(folder.join("any"), "").unwrap();
        write(&folder.join("new"), "").unwrap();
        assert_eq!(mode(&folder.join("new")), mode(&folder.join("any")));
        fs::set_permissions(folder.join("new"), fs::Permissions::from_mode(0o751)).unwrap();
        write(&folder.join("new"), "again").unwrap();
        assert_eq!(mode(&folder.join("new")), 0o751);
        assert_eq!(
            fs::metadata(folder.join("new")).unwrap().uid(),
            fs::metadata(folder.join("any")).unwrap().uid()
        );
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn names_need_not_be_unicode() {
        let folder = empty_folder("bytes");
        let path = folder.join(std::ffi::OsStr::from_bytes(b"\xff\xfe.npy"));
        write(&path, "text").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "text");
        fs::remove_dir_all(&folder).unwrap();
    }
}
