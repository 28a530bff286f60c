//! What goes to standard error, and how a command ends.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use tile_lang::Sources;
use tile_lang::diagnostic::Diagnostic;
use tile_runtime::data::write_whole;
use tile_runtime::{Blame, Device, Error};

/// How much to say, and whether in colour.
pub struct Terminal {
    pub quiet: bool,
    pub verbose: bool,
    pub color: bool,
    /// What was told once, and need not be told again.
    told: RefCell<Vec<String>>,
}

/// Why a command did not do its work (most wrong usage apart: clap ends with exit code 2). The text is ready to print: diagnostics with their source, or one line.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// The input is at fault: exit code 1.
    pub fn input(text: impl Into<String>) -> Failure {
        Failure { code: 1, text: format!("error: {}\n", text.into()) }
    }

    /// The command line is wrong, in a way that clap does not see: exit code 2.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure { code: 2, text: format!("error: {}\n", text.into()) }
    }

    /// The device or the machine is: exit code 3.
    pub fn machine(text: impl Into<String>) -> Failure {
        Failure { code: 3, text: format!("error: {}\n", text.into()) }
    }

    /// Ctrl-C ended the command: exit code 130, as a shell gives a process that the signal ended.
    pub fn interrupted() -> Failure {
        Failure { code: 130, text: String::new() }
    }

    /// Both, one after the other; the graver exit code.
    pub fn and(self, other: Failure) -> Failure {
        Failure { code: self.code.max(other.code), text: self.text + &other.text }
    }

    /// A file that cannot be read is input at fault.
    pub fn reading(path: &Path, error: &std::io::Error) -> Failure {
        Failure::input(format!("cannot read {}: {error}", path.display()))
    }

    /// A file that cannot be written is the machine's fault.
    pub fn writing(path: &Path, error: &std::io::Error) -> Failure {
        Failure::machine(format!("cannot write {}: {error}", path.display()))
    }
}

impl Terminal {
    pub fn new(quiet: bool, verbose: bool) -> Terminal {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Terminal { quiet, verbose, color: wanted && std::io::stderr().is_terminal(), told: RefCell::default() }
    }

    /// Something that the user should know.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            tell(&format!("note: {text}\n"));
        }
    }

    /// The same, unless it was told before.
    pub fn note_once(&self, text: &str) {
        let mut told = self.told.borrow_mut();
        if !told.iter().any(|known| known == text) {
            self.note(text);
            told.push(text.to_owned());
        }
    }

    /// What a device warns of.
    pub fn warn_of(&self, device: &Device) {
        device.warnings().iter().for_each(|warning| self.note_once(warning));
    }

    /// Something that the user asked to know, with `--verbose`.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            tell(&format!("{text}\n"));
        }
    }

    /// Diagnostics with the source they point at, ready to print.
    pub fn render(&self, sources: &Sources, diagnostics: &[Diagnostic]) -> String {
        tile_lang::render(diagnostics, sources, self.color)
    }

    /// Prints warnings, if they are wanted.
    pub fn warn(&self, sources: &Sources, warnings: &[Diagnostic]) {
        if !self.quiet && !warnings.is_empty() {
            tell(&self.render(sources, warnings));
        }
    }

    /// What the runtime reports: exit code 1 or 3, by who can mend it.
    pub fn failure(&self, error: &Error, path: &Path) -> Failure {
        let code = match error.blame() {
            Blame::Input => 1,
            Blame::Machine => 3,
        };
        Failure { code, text: error.render(&path.display().to_string(), self.color) }
    }

    /// The program is at fault: exit code 1.
    pub fn rejected(&self, sources: &Sources, diagnostics: &[Diagnostic]) -> Failure {
        Failure { code: 1, text: self.render(sources, diagnostics) }
    }
}

/// Prints on standard error. A reader who closed it has seen enough, and there is nowhere else to tell.
pub fn tell(text: &str) {
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Writes a file, whole or not at all.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_whole(path, |path| std::fs::write(path, &content)).map_err(|error| Failure::writing(path, &error))
}

/// Sees that a file can be written, before there is work that would be lost. Nothing is there afterwards that was not before.
pub fn can_be_written(path: &Path) -> Result<(), Failure> {
    let is_new = !path.exists();
    let opened = std::fs::File::options().append(true).create(true).open(path);
    opened.map_err(|error| Failure::writing(path, &error))?;
    if is_new {
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Sees that no file is written twice, or over one that is read.
pub fn loses_nothing(read: &[&Path], written: &[&Path]) -> Result<(), Failure> {
    for (number, path) in written.iter().enumerate() {
        if read.iter().any(|other| is_same_file(path, other)) {
            return Err(Failure::usage(format!("{} is read, and would be written over", path.display())));
        }
        if written[..number].iter().any(|other| is_same_file(path, other)) {
            return Err(Failure::usage(format!("{} would be written twice", path.display())));
        }
    }
    Ok(())
}

/// Sees that the name of the file for an option has one of these extensions.
pub fn has_extension(option: &str, path: &Path, extensions: &[&str]) -> Result<(), Failure> {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    if extensions.contains(&extension) {
        return Ok(());
    }
    let wanted = extensions.iter().map(|extension| format!(".{extension}")).collect::<Vec<_>>().join(" or ");
    let what = format!("the name of the file for `{option}` ends in {wanted}, and this is {}", path.display());
    Err(Failure::usage(what))
}

/// Whether two paths are of one file, which may be yet to come.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    // Of a file that is not there the folder may be.
    let whole = |path: &Path| {
        let there = path.canonicalize().ok();
        let folder = path.parent().map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        there.or_else(|| Some(folder?.canonicalize().ok()?.join(path.file_name()?)))
    };
    a == b || whole(a).is_some_and(|a| Some(a) == whole(b))
}

/// Prints results. A reader who closed the pipe has seen enough.
pub fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::machine(format!("cannot write standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// The exit code of a command, after its failure has been printed.
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure.text);
            ExitCode::from(failure.code)
        }
    }
}
