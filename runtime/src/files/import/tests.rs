use std::path::PathBuf;
use std::{fs, io};

use tile_lang::Imported;

use super::Imports;
use crate::Model;

/// A folder with a program in `nets`, and files beside that folder.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("tilec-test-{}-{name}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(folder.join("nets/blocks")).unwrap();
    for (file, text) in
        [("nets/main.tile", "main"), ("nets/blocks/a.tile", "a"), ("secret.tile", "secret")]
    {
        fs::write(folder.join(file), text).unwrap();
    }
    fs::write(folder.join("nets/latin.tile"), b"\xe4").unwrap();
    folder
}

/// Returns the text of an import, or the reason for its refusal without the help.
fn read(imports: &Imports, path: &str) -> String {
    match imports.load(path) {
        Imported::Text(text) => text,
        Imported::Missing => "missing".to_owned(),
        Imported::Refused { why, .. } => why,
    }
}

const OUTSIDE: &str = "it is outside of the program's folder";

#[test]
fn imports_stay_below_the_folder_of_the_program() {
    let folder = folder("below");
    let path = |file: &str| folder.join(file).to_str().unwrap().to_owned();
    let imports = Imports::of(folder.join("nets/main.tile"));
    assert_eq!(read(&imports, &path("nets/blocks/a.tile")), "a");
    assert_eq!(read(&imports, &path("nets/blocks/b.tile")), "missing");
    // The same where there is no such file.
    for file in ["secret.tile", "none.tile", "nets/../secret.tile", "nets/blocks/../../none.tile"] {
        assert_eq!(read(&imports, &path(file)), OUTSIDE, "{file}");
    }
    assert_eq!(
        read(&imports, &path("nets/latin.tile")),
        "line 1 is not in UTF-8: save it as UTF-8"
    );
    assert_eq!(read(&imports, &path("nets/blocks")), "it is no regular file");
    let allowed = imports.allow(&folder);
    assert_eq!(read(&allowed, &path("secret.tile")), "secret");
    assert_eq!(read(&allowed, "/dev/zero"), OUTSIDE);
    fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn links_are_followed_before_the_check() {
    use std::os::unix::fs::symlink;
    let folder = folder("links");
    let nets = folder.join("nets");
    for (target, link) in [
        ("../secret.tile", "out.tile"),
        ("blocks/a.tile", "in.tile"),
        ("..", "up"),
        ("/dev/zero", "z"),
    ] {
        symlink(target, nets.join(link)).unwrap();
    }
    symlink("nets", folder.join("linked")).unwrap();
    for main in [nets.join("main.tile"), folder.join("linked/main.tile")] {
        let imports = Imports::of(&main);
        let path = |file: &str| main.with_file_name(file).to_str().unwrap().to_owned();
        assert_eq!(read(&imports, &path("in.tile")), "a");
        for file in ["out.tile", "up/secret.tile", "z"] {
            assert_eq!(read(&imports, &path(file)), OUTSIDE, "{file}");
        }
    }
    let everywhere = Imports::of(nets.join("main.tile")).allow("/");
    assert_eq!(read(&everywhere, nets.join("z").to_str().unwrap()), "it is no regular file");
    fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn folders_need_not_be_unicode() {
    use std::os::unix::ffi::OsStrExt;
    let folder = folder("bytes");
    let named = folder.join(std::ffi::OsStr::from_bytes(b"\xff\xfe"));
    fs::rename(folder.join("nets"), &named).unwrap();
    let main = named.join("main.tile");
    let text = "import \"blocks/b.tile\"; model M(X) -> (Y) { Y = f(X); }";
    fs::write(
        named.join("blocks/b.tile"),
        "import \"../c.tile\"; function f(X) -> (Y) { Y = g(X); }",
    )
    .unwrap();
    fs::write(named.join("c.tile"), "function g(X) -> (Y) { Y = X; }").unwrap();
    let imports = Imports::of(&main);
    Model::compile_file(&main.to_string_lossy(), text, &|path| imports.load(path)).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_program_may_be_anywhere() {
    assert_eq!(
        read(&Imports::of("main.tile"), "Cargo.toml"),
        fs::read_to_string("Cargo.toml").unwrap()
    );
    assert_eq!(read(&Imports::of("src/../main.tile"), "../nothing.tile"), OUTSIDE);
    assert!(super::read_program("/dev/zero").is_err() || cfg!(not(unix)));
    assert_eq!(
        crate::files::open_file("src".as_ref()).unwrap_err().kind(),
        io::ErrorKind::InvalidInput
    );
}
