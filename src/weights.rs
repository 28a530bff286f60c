//! The options that give a program its weights: `--weights` and `--allow-extra`.

use std::path::PathBuf;

use tile_runtime::train::Trainer;
use tile_runtime::{Error, Session};

use crate::terminal::Terminal;

/// The file with the weights of a program.
#[derive(clap::Args)]
pub struct WeightsOptions {
    /// The weights: a .safetensors or .npz file, the .safetensors.index.json of several, or an .h5
    /// file of Keras
    #[arg(id = "weights", long = "weights", value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Allow entries in `--weights` that the program has no weight for, with a note
    #[arg(long, requires = "weights")]
    allow_extra: bool,
}

impl WeightsOptions {
    /// Loads the file, if there is one, with a note of the entries that no weight takes. Returns
    /// whether there is one.
    pub fn load(&self, session: &mut Session, terminal: &Terminal) -> Result<bool, Error> {
        let Some(file) = &self.file else { return Ok(false) };
        let unused = if self.allow_extra { session.load_allowing_extra(file) } else { session.load(file) };
        terminal.note_unused(file, &unused?);
        Ok(true)
    }

    /// Loads the file, if there is one, into a trainer, which knows the entries that no weight
    /// takes as soon as it has compiled the model. Returns whether there is one.
    pub fn load_into_trainer(&self, trainer: &mut Trainer) -> Result<bool, Error> {
        let Some(file) = &self.file else { return Ok(false) };
        if self.allow_extra { trainer.load_allowing_extra(file) } else { trainer.load(file) }?;
        Ok(true)
    }
}
