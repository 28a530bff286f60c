//! The options that give a program its weights: `--weights`, `--weights-map`, `--partial` and
//! `--allow-extra`; and the scale of pixel values that is saved with them.

use std::path::{Path, PathBuf};

use clap::builder::{OsStringValueParser, TypedValueParser};
use tile_runtime::data::picture::Pixels;
use tile_runtime::train::{DataDescription, Trainer};
use tile_runtime::weights::{LoadOptions, NameMap, WeightsSource};
use tile_runtime::{Error, Session};

use crate::arguments::pixels;
use crate::terminal::Terminal;

/// The files with the weights of a program.
#[derive(clap::Args)]
pub struct WeightsOptions {
    /// The weights: a .safetensors or .npz file, the .safetensors.index.json of several, an .h5 or
    /// .keras file of Keras, or a .pt file of PyTorch. `PATH=FILE` fills the layer at PATH alone,
    /// and `FILE#PART` takes the entries at PART of the file alone
    #[arg(id = "weights", long = "weights", value_name = "[PATH=]FILE[#PART]",
          value_parser = OsStringValueParser::new().map(|text| WeightsSource::parse(&text)))]
    sources: Vec<WeightsSource>,
    /// The weights of entries with other names: lines `NAME IN THE FILE = NAME IN THE PROGRAM`
    #[arg(long = "weights-map", value_name = "FILE", requires = "weights")]
    map: Option<PathBuf>,
    /// Initialise the weights that the files of `--weights` lack, with a note
    #[arg(long, requires = "weights")]
    partial: bool,
    /// Allow entries in `--weights` that the program has no weight for, with a note
    #[arg(long, requires = "weights")]
    allow_extra: bool,
}

impl WeightsOptions {
    /// Returns whether there is no file of weights.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Returns the files to read.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.sources.iter().map(|source| &source.file).chain(&self.map).map(PathBuf::as_path)
    }

    /// Returns the file for the whole program, if there is one.
    pub fn whole(&self) -> Option<&Path> {
        let is_whole = |source: &&WeightsSource| source.target.is_none() && source.part.is_none();
        self.sources.iter().find(is_whole).map(|source| &*source.file)
    }

    fn options(&self) -> Result<LoadOptions, Error> {
        let names = self.map.as_ref().map(NameMap::open).transpose().map_err(Error::Weights)?;
        let options = LoadOptions::new(self.sources.clone()).names(names.unwrap_or_default());
        Ok(options.allow_extra(self.allow_extra).partial(self.partial))
    }

    /// Loads the files, with a note of the entries that no weight takes. With `--partial`, missing
    /// weights are initialised from `seed`. Returns the weights that have no value.
    pub fn load(
        &self,
        session: &mut Session,
        seed: u64,
        terminal: &Terminal,
    ) -> Result<Vec<String>, Error> {
        if self.is_empty() {
            return Ok(session.missing_weights().map(|(path, _)| path.to_owned()).collect());
        }
        let report = session.load_with(&self.options()?)?;
        terminal.note_unused(&report);
        if !self.partial || report.missing.is_empty() {
            return Ok(report.missing);
        }
        terminal.note_initialised(&report.missing);
        session.initialise(seed)?;
        Ok(Vec::new())
    }

    /// Loads the files into a trainer, which reports what no weight takes as soon as it has
    /// compiled the model. Returns whether there is a file.
    pub fn load_into_trainer(&self, trainer: &mut Trainer) -> Result<bool, Error> {
        if !self.is_empty() {
            trainer.load_with(&self.options()?)?;
        }
        Ok(!self.is_empty())
    }
}

/// Returns the pixel scaling to use: the one that is given, else that of the training, else raw
/// values. Notes if training had another one than is given, or if it is not the default.
pub fn pixels_as_trained(
    given: Option<Pixels>,
    data: &DataDescription,
    terminal: &Terminal,
) -> Pixels {
    let trained = data.pictures.as_deref().and_then(|name| pixels(name).ok().map(|p| (name, p)));
    match (given, trained) {
        (Some(given), Some((name, trained))) if given != trained => {
            terminal.note(&format!(
                "the weights were trained on pictures with `--pictures {name}`, and these have other values"
            ));
            given
        }
        (Some(given), _) => given,
        (None, Some((name, trained))) => {
            if trained != Pixels::default() {
                terminal.note(&format!("pictures are scaled as in training: `--pictures {name}`"));
            }
            trained
        }
        (None, None) => Pixels::default(),
    }
}
