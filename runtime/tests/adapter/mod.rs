//! A device of an app, as an app that uses wgpu opens it.

use tile_runtime::Device;
use wgpu::{Limits, Queue};

/// Opens the first adapter with its limits, as `change` leaves them, and without an error handler.
/// Returns `None` if there is no adapter.
pub fn open(change: impl FnOnce(&mut Limits)) -> Option<(wgpu::Device, Queue, Device)> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::PRIMARY,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapters = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::PRIMARY));
    let Some(adapter) = adapters.into_iter().next() else {
        println!("note: there is no adapter");
        return None;
    };
    let mut required_limits = adapter.limits();
    change(&mut required_limits);
    let descriptor = wgpu::DeviceDescriptor { required_limits, ..Default::default() };
    let (device, queue) = pollster::block_on(adapter.request_device(&descriptor)).unwrap();
    let name = adapter.get_info().name;
    let tile = Device::from_wgpu(adapter, device.clone(), queue.clone()).unwrap();
    assert_eq!(tile.adapter(), name);
    Some((device, queue, tile))
}
