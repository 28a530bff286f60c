//! Memory of a program that is not its own alone: that of an app, which it binds, and weights of
//! other programs; and runs in an app's encoder.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use tile_compiler::plan::{BufferId, Plan, Port};
use wgpu::CommandEncoder;

use super::executable::{GpuExecutable, create};
use super::gpu::lock;
use super::launches::{self, Region};
use super::resource::{BoundPort, Resource};
use crate::error::Error;

impl GpuExecutable {
    /// Records a run in an encoder of the app. Neither submits nor waits.
    pub fn encode(&mut self, encoder: &mut CommandEncoder) -> Result<(), Error> {
        self.gpu.check_alive()?;
        self.gpu.scoped_now("to record the program", || self.record(encoder))?;
        if !self.launches.has_prelude() {
            self.submitted();
        } else if self.fresh.load(Ordering::Acquire) < self.given {
            // The app may drop the encoder, so the prelude counts only after it has run.
            let (fresh, given) = (self.fresh.clone(), self.given);
            encoder.on_submitted_work_done(move || _ = fresh.fetch_max(given, Ordering::AcqRel));
        }
        Ok(())
    }

    /// Uses memory of the app for the input or output of this name, or with `None` its own memory
    /// again.
    ///
    /// # Errors
    /// [`Error::Bind`] if it does not suit the port. Nothing has changed then.
    pub fn bind(
        &mut self,
        name: &str,
        is_output: bool,
        resource: Option<Resource>,
    ) -> Result<(), Error> {
        let bound = BoundPort::new(&self.plan, name, is_output)?;
        let id = bound.port.buffer;
        let (region, texture) = match resource {
            Some(Resource::Buffer(slice)) => (Some(bound.region(&self.gpu, slice)?), None),
            Some(Resource::Texture(texture)) => (None, Some(bound.texture(texture)?)),
            None => (None, None),
        };
        if let Some(region) = &region {
            self.check_exclusive(bound.port, is_output, region)?;
        }
        if region.is_some() || self.own.contains_key(&id) {
            self.replace(id, region)?;
        }
        self.textures.retain(|texture| texture.id != id);
        self.textures.extend(texture);
        Ok(())
    }

    /// Binds a region of the app for buffer `id`, or with `None` its own region again. On an error,
    /// such as for a buffer of another device, the region before is bound again.
    fn replace(&mut self, id: BufferId, region: Option<Region>) -> Result<(), Error> {
        let before = launches::region(&self.regions, id)?.clone();
        let own = self.own.get(&id).unwrap_or(&before).clone();
        self.regions[id] = Some(region.clone().unwrap_or_else(|| own.clone()));
        if let Err(error) = self.rebind(id) {
            self.regions[id] = Some(before);
            self.rebind(id)?;
            return Err(error);
        }
        match region {
            Some(_) => _ = self.own.insert(id, own),
            None => _ = self.own.remove(&id),
        }
        Ok(())
    }

    /// Checks that no buffer is both read and written by the program.
    fn check_exclusive(&self, port: &Port, is_output: bool, new: &Region) -> Result<(), Error> {
        let writes = |id: BufferId| self.plan.outputs.iter().any(|port| port.buffer == id);
        let is_same = |&(&id, _): &(&BufferId, &Region)| {
            id != port.buffer
                && (is_output || writes(id))
                && self.regions[id].as_ref().is_some_and(|region| region.buffer == new.buffer)
        };
        let Some((&other, _)) = self.own.iter().find(is_same) else { return Ok(()) };
        let mut ports = self.plan.inputs.iter().chain(&self.plan.outputs);
        let name = ports.find(|port| port.buffer == other).map_or("", |port| port.name.as_str());
        let what = format!("its buffer is also bound to `{name}`, and one of the two is written");
        Err(Error::Bind { name: port.name.clone(), what })
    }

    /// Uses the weights' buffers of another executable. `pairs` has the indices of each weight here
    /// and there.
    pub fn share(&mut self, pairs: &[(usize, usize)], other: &GpuExecutable) -> Result<(), Error> {
        if !Arc::ptr_eq(&self.gpu, &other.gpu) {
            return Err(Error::data("weights are shared by sessions of one device".into()));
        }
        for &(mine, theirs) in pairs {
            let id = |plan: &Plan, number| {
                let missing = || Error::internal(format!("the plan has no weight {number}"));
                plan.given().nth(number).map(|port| port.buffer).ok_or_else(missing)
            };
            let (id, theirs) = (id(&self.plan, mine)?, id(&other.plan, theirs)?);
            self.regions[id] = Some(launches::region(&other.regions, theirs)?.clone());
            self.shared.get_mut().unwrap_or_else(PoisonError::into_inner).insert(id);
            lock(&other.shared).insert(theirs);
            self.rebind(id)?;
        }
        self.given += 1;
        Ok(())
    }

    /// Gives a weight whose buffer others share a buffer of its own.
    pub fn unshare(&mut self, id: BufferId) -> Result<(), Error> {
        if !lock(&self.shared).contains(&id) {
            return Ok(());
        }
        let bytes = self.plan.buffers[id].bytes();
        let create = || Ok(create(&self.gpu, bytes));
        let own = self.gpu.scoped_now("to allocate a weight", create)?;
        let before = self.regions[id].replace(Region { buffer: own, offset: 0 });
        if let Err(error) = self.rebind(id) {
            self.regions[id] = before;
            return Err(error);
        }
        // Only now: until then, the buffer of others must not be written.
        lock(&self.shared).remove(&id);
        Ok(())
    }

    /// Binds the memory that buffer `id` has now.
    fn rebind(&mut self, id: BufferId) -> Result<(), Error> {
        let GpuExecutable { gpu, plan, regions, launches, .. } = self;
        let rebind = || launches.rebind(gpu, plan, regions, id);
        gpu.scoped_now("to bind buffers", rebind)
    }
}
