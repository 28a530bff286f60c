//! Standard error, standard output, files, and the exit codes of commands.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use tile_lang::diagnostic::Diagnostic;
use tile_lang::{Sources, listed};
use tile_runtime::data::folder::Samples;
use tile_runtime::data::{self, write_whole};
use tile_runtime::weights::LoadReport;
use tile_runtime::{Blame, Device, Error, reason_of_reading, reason_of_writing};

/// The options of all commands: verbosity, colour and permitted imports.
pub struct Terminal {
    pub quiet: bool,
    pub verbose: bool,
    pub color: bool,
    /// The folders of `--allow-import`.
    pub allowed_imports: Vec<PathBuf>,
    /// The notes printed by [`Terminal::note_once`].
    told: RefCell<Vec<String>>,
}

/// The failure of a command, with its exit code. The text is ready to print: diagnostics with their
/// source, or one line. clap reports most wrong usage itself, with exit code 2.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    text: String,
}

impl Failure {
    /// A fault of the input: exit code 1.
    pub fn input(text: impl Into<String>) -> Failure {
        Failure { code: 1, text: format!("error: {}\n", text.into()) }
    }

    /// A fault of the command line that clap does not see: exit code 2.
    pub fn usage(text: impl Into<String>) -> Failure {
        Failure { code: 2, text: format!("error: {}\n", text.into()) }
    }

    /// A fault of the device or the machine: exit code 3.
    pub fn machine(text: impl Into<String>) -> Failure {
        Failure { code: 3, text: format!("error: {}\n", text.into()) }
    }

    /// Ctrl-C ended the command: exit code 130, as in a shell for a process that SIGINT ended.
    pub fn interrupted() -> Failure {
        Failure { code: 130, text: String::new() }
    }

    /// Joins both texts, and takes the larger exit code.
    pub fn and(self, other: Failure) -> Failure {
        Failure { code: self.code.max(other.code), text: self.text + &other.text }
    }

    /// A file that cannot be read: a fault of the input.
    pub fn reading(path: &Path, error: &std::io::Error) -> Failure {
        Failure::input(format!(
            "cannot read {}: {}",
            path.display(),
            reason_of_reading(path, error)
        ))
    }

    /// A file that cannot be written: a fault of the input if the path is wrong, else of the
    /// machine.
    pub fn writing(path: &Path, error: &std::io::Error) -> Failure {
        let what = format!("cannot write {}: {}", path.display(), reason_of_writing(path, error));
        match Blame::of_writing(error) {
            Blame::Input => Failure::input(what),
            Blame::Machine => Failure::machine(what),
        }
    }
}

impl Terminal {
    pub fn new(quiet: bool, verbose: bool, allowed_imports: Vec<PathBuf>) -> Terminal {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        let color = wanted && std::io::stderr().is_terminal();
        Terminal { quiet, verbose, color, allowed_imports, told: RefCell::default() }
    }

    /// Returns a progress bar with this template of `indicatif`, unless `--quiet`, if standard
    /// error is a terminal.
    pub fn progress_bar(&self, template: &str) -> Option<ProgressBar> {
        let is_shown = !self.quiet && std::io::stderr().is_terminal();
        is_shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
            let style = ProgressStyle::with_template(template);
            let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
            bar.with_style(style.progress_chars("━╸━"))
        })
    }

    /// Prints a note, unless `--quiet`.
    pub fn note(&self, text: &str) {
        if !self.quiet {
            tell(&format!("note: {text}\n"));
        }
    }

    /// Prints a note, unless it was printed before.
    pub fn note_once(&self, text: &str) {
        let mut told = self.told.borrow_mut();
        if !told.iter().any(|known| known == text) {
            self.note(text);
            told.push(text.to_owned());
        }
    }

    /// Prints a device's warnings, each once.
    pub fn warn_of(&self, device: &Device) {
        device.warnings().iter().for_each(|warning| self.note_once(warning));
    }

    /// Notes the entries of files that no weight takes.
    pub fn note_unused(&self, report: &LoadReport) {
        for (file, names) in &report.unused {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            self.note(&format!("{}: no weight takes {}", file.display(), listed(&names)));
        }
    }

    /// Notes the parts of data that are skipped, or belong to no input or output.
    pub fn note_unused_data(&self, samples: &Samples) {
        samples.notes.iter().for_each(|note| self.note(note));
        if !samples.unused.is_empty() {
            let names: Vec<String> =
                samples.unused.iter().map(|name| format!("`{name}`")).collect();
            self.note(&format!(
                "not used: {}, of which no input or output has the name",
                listed(&names)
            ));
        }
    }

    /// Notes the weights that no file filled.
    pub fn note_initialised(&self, missing: &[String]) {
        if !missing.is_empty() {
            let names: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
            self.note(&format!("no file has {}: initialised", listed(&names)));
        }
    }

    /// Prints a detail, with `--verbose` only.
    pub fn detail(&self, text: &str) {
        if self.verbose {
            tell(&format!("{text}\n"));
        }
    }

    /// Renders diagnostics with the source that they point at.
    pub fn render(&self, sources: &Sources, diagnostics: &[Diagnostic]) -> String {
        tile_lang::render(diagnostics, sources, self.color)
    }

    /// Prints warnings, unless `--quiet`.
    pub fn warn(&self, sources: &Sources, warnings: &[Diagnostic]) {
        if !self.quiet && !warnings.is_empty() {
            tell(&self.render(sources, warnings));
        }
    }

    /// Converts an error of the runtime: exit code 1 for the input's fault, 3 for the machine's.
    pub fn failure(&self, error: &Error, path: &Path) -> Failure {
        let code = match error.blame() {
            Blame::Input => 1,
            Blame::Machine => 3,
        };
        Failure { code, text: error.render(&path.display().to_string(), self.color) }
    }

    /// Converts diagnostics of a program: exit code 1.
    pub fn rejected(&self, sources: &Sources, diagnostics: &[Diagnostic]) -> Failure {
        Failure { code: 1, text: self.render(sources, diagnostics) }
    }
}

/// Prints to standard error, with control characters escaped: names of files may have some. Errors
/// are ignored: there is nowhere else to report them.
pub fn tell(text: &str) {
    let text = escaped(text, std::io::stderr().is_terminal());
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

/// Escapes control characters other than line breaks and tabs, and those that turn the direction of
/// text. Keeps the codes of colours if `has_colors`.
pub fn escaped(text: &str, has_colors: bool) -> String {
    let is_turn = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let color = if has_colors { color_code(rest) } else { None };
        let length = color.unwrap_or(next.len_utf8());
        match next {
            _ if color.is_some() => shown.push_str(&rest[..length]),
            '\n' | '\t' => shown.push(next),
            _ if next.is_control() || is_turn(next) => shown.extend(next.escape_default()),
            _ => shown.push(next),
        }
        rest = &rest[length..];
    }
    shown
}

/// Returns the length of the colour code that a text begins with, such as `ESC [ 31 ; 1 m`.
fn color_code(text: &str) -> Option<usize> {
    let code = text.strip_prefix("\x1b[")?;
    let end = code.find(|c: char| !c.is_ascii_digit() && c != ';')?;
    code[end..].starts_with('m').then_some("\x1b[".len() + end + 1)
}

/// Writes a file completely, or leaves it as it was.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), Failure> {
    write_whole(path, |file| file.write_all(content.as_ref()))
        .map_err(|error| Failure::writing(path, &error))
}

/// Checks that a file can be written, before work that would be lost.
pub fn can_be_written(path: &Path) -> Result<(), Failure> {
    data::can_be_written(path).map_err(|error| Failure::writing(path, &error))
}

/// Checks that no file is written twice or written over a file that is read.
pub fn loses_nothing(read: &[&Path], written: &[&Path]) -> Result<(), Failure> {
    for (number, path) in written.iter().enumerate() {
        if read.iter().any(|other| is_same_file(path, other)) {
            return Err(Failure::usage(format!(
                "{} is read, and would be written over",
                path.display()
            )));
        }
        if written[..number].iter().any(|other| is_same_file(path, other)) {
            return Err(Failure::usage(format!("{} would be written twice", path.display())));
        }
    }
    Ok(())
}

/// Checks that the file name for an option has one of these extensions.
pub fn has_extension(option: &str, path: &Path, extensions: &[&str]) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let stem = |extension: &str| name.strip_suffix(extension)?.strip_suffix('.');
    if extensions.iter().any(|extension| stem(extension).is_some_and(|stem| !stem.is_empty())) {
        return Ok(());
    }
    let wanted =
        extensions.iter().map(|extension| format!(".{extension}")).collect::<Vec<_>>().join(" or ");
    let what = format!(
        "the name of the file for `{option}` ends in {wanted}, and this is {}",
        path.display()
    );
    Err(Failure::usage(what))
}

/// Returns whether two paths name the same file, which need not exist.
pub fn is_same_file(a: &Path, b: &Path) -> bool {
    // For a missing file its folder is canonicalized.
    let whole = |path: &Path| {
        let there = path.canonicalize().ok();
        let folder = path
            .parent()
            .map(|folder| if folder.as_os_str().is_empty() { Path::new(".") } else { folder });
        there.or_else(|| Some(folder?.canonicalize().ok()?.join(path.file_name()?)))
    };
    a == b || whole(a).is_some_and(|a| Some(a) == whole(b))
}

/// Prints results. A closed pipe is not an error.
pub fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::machine(format!("cannot write standard output: {error}")))
        }
        _ => Ok(()),
    }
}

/// Prints the failure of a command, if any, and returns the exit code.
pub fn exit(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            tell(&failure.text);
            ExitCode::from(failure.code)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        let text = "a\tb\n\x1b[31;1mred\x1b[0m \x1b[2J\r\u{7}\u{202e}\u{9b}é";
        let plain = r"\u{1b}[31;1mred\u{1b}[0m \u{1b}[2J\r\u{7}\u{202e}\u{9b}é";
        assert_eq!(escaped(text, false), format!("a\tb\n{plain}"));
        let colored =
            r"red \u{1b}[2J\r\u{7}\u{202e}\u{9b}é".replacen("red", "\x1b[31;1mred\x1b[0m", 1);
        assert_eq!(escaped(text, true), format!("a\tb\n{colored}"));
        assert_eq!(escaped("\x1b[", true), r"\u{1b}[");
    }
}
