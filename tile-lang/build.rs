//! Makes the parser from `src/grammar.lalrpop`, and the list of the files in `std/`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    #[cfg(feature = "parse")]
    parser::make()?;
    Ok(())
}

#[cfg(feature = "parse")]
mod parser {
    use std::error::Error;
    use std::path::Path;
    use std::{env, fs};

    pub fn make() -> Result<(), Box<dyn Error>> {
        lalrpop::Configuration::new()
            .use_cargo_dir_conventions()
            .emit_rerun_directives(true)
            .process()?;
        let folder = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("std");
        println!("cargo::rerun-if-changed={}", folder.display());
        let mut list = String::from("&[\n");
        let mut paths = fs::read_dir(&folder)?
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>, std::io::Error>>()?;
        paths.sort();
        for path in paths
            .iter()
            .filter(|path| path.extension().is_some_and(|extension| extension == "tile"))
        {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            list +=
                &format!("    LibraryFile {{ name: {name:?}, text: include_str!({path:?}) }},\n");
        }
        fs::write(Path::new(&env::var("OUT_DIR")?).join("library.rs"), list + "]\n")?;
        Ok(())
    }
}
