//! A window that shows the edges of the moving picture.

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, CurrentSurfaceTexture, FragmentState, Instance,
    InstanceDescriptor, MultisampleState, RenderPassColorAttachment, RenderPassDescriptor,
    RenderPipeline, RenderPipelineDescriptor, RequestAdapterOptions, Surface, SurfaceConfiguration,
    VertexState, include_wgsl,
};
use winit::application::ApplicationHandler;
use winit::dpi::PhysicalSize;
use winit::event::WindowEvent;
use winit::event_loop::{ActiveEventLoop, EventLoop};
use winit::window::{Window, WindowId};

use crate::filter::Filter;

/// The width and height of the picture.
const SIZE: usize = 512;

/// Shows the window until it is closed.
pub fn open() -> Result<(), Box<dyn Error>> {
    let events = EventLoop::new()?;
    let mut app = App { started: Instant::now(), view: None, failed: None };
    events.run_app(&mut app)?;
    app.failed.map_or(Ok(()), Err)
}

struct App {
    started: Instant,
    /// The window, while there is one.
    view: Option<View>,
    /// The error that ended the app.
    failed: Option<Box<dyn Error>>,
}

impl App {
    /// Ends the app on an error.
    fn check<T>(
        &mut self,
        events: &ActiveEventLoop,
        result: Result<T, Box<dyn Error>>,
    ) -> Option<T> {
        let failed = |error| {
            self.failed = Some(error);
            events.exit();
        };
        result.map_err(failed).ok()
    }
}

impl ApplicationHandler for App {
    fn resumed(&mut self, events: &ActiveEventLoop) {
        self.view = None;
        let view = View::open(events);
        self.view = self.check(events, view);
    }

    fn window_event(&mut self, events: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        let Some(view) = &mut self.view else { return };
        match event {
            WindowEvent::CloseRequested => events.exit(),
            WindowEvent::Resized(size) => view.resize(size),
            WindowEvent::RedrawRequested => match view.draw(self.started.elapsed().as_secs_f32()) {
                Ok(Drawn::Lost) => self.resumed(events),
                result => drop(self.check(events, result)),
            },
            _ => {}
        }
    }
}

/// The result of drawing a frame.
enum Drawn {
    /// The window shows it, or is hidden.
    Done,
    /// The GPU or the window's surface was reset or removed. All is built again.
    Lost,
}

/// A window with the filter whose edges it shows.
struct View {
    window: Arc<Window>,
    surface: Surface<'static>,
    configuration: SurfaceConfiguration,
    filter: Filter,
    pipeline: RenderPipeline,
    edges: BindGroup,
}

impl View {
    fn open(events: &ActiveEventLoop) -> Result<View, Box<dyn Error>> {
        let size = PhysicalSize::new(SIZE as u32, SIZE as u32);
        let attributes = Window::default_attributes().with_title("live filter");
        let window = Arc::new(events.create_window(attributes.with_inner_size(size))?);
        let display = Box::new(events.owned_display_handle());
        let instance = Instance::new(InstanceDescriptor::new_with_display_handle(display));
        let surface = instance.create_surface(window.clone())?;
        let adapter = pollster::block_on(instance.request_adapter(&RequestAdapterOptions {
            compatible_surface: Some(&surface),
            ..Default::default()
        }))?;
        let size = window.inner_size();
        let configuration = surface
            .get_default_config(&adapter, size.width.max(1), size.height.max(1))
            .ok_or("the adapter cannot show windows")?;
        let filter = Filter::open(adapter, SIZE)?;
        surface.configure(&filter.device, &configuration);

        let shader = filter.device.create_shader_module(include_wgsl!("show.wgsl"));
        let pipeline = filter.device.create_render_pipeline(&RenderPipelineDescriptor {
            label: None,
            layout: None,
            vertex: VertexState {
                module: &shader,
                entry_point: None,
                compilation_options: Default::default(),
                buffers: &[],
            },
            primitive: Default::default(),
            depth_stencil: None,
            multisample: MultisampleState::default(),
            fragment: Some(FragmentState {
                module: &shader,
                entry_point: None,
                compilation_options: Default::default(),
                targets: &[Some(configuration.format.into())],
            }),
            multiview_mask: None,
            cache: None,
        });
        let edges = filter.device.create_bind_group(&BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &[BindGroupEntry { binding: 0, resource: filter.edges.as_entire_binding() }],
        });
        Ok(View { window, surface, configuration, filter, pipeline, edges })
    }

    fn resize(&mut self, size: PhysicalSize<u32>) {
        self.configuration.width = size.width.max(1);
        self.configuration.height = size.height.max(1);
        self.surface.configure(&self.filter.device, &self.configuration);
    }

    /// Computes and shows the frame at a time in seconds, in one submission.
    fn draw(&mut self, time: f32) -> Result<Drawn, Box<dyn Error>> {
        self.window.request_redraw();
        let texture = match self.surface.get_current_texture() {
            CurrentSurfaceTexture::Success(texture)
            | CurrentSurfaceTexture::Suboptimal(texture) => texture,
            CurrentSurfaceTexture::Timeout | CurrentSurfaceTexture::Occluded => {
                return Ok(Drawn::Done);
            }
            CurrentSurfaceTexture::Outdated => {
                self.surface.configure(&self.filter.device, &self.configuration);
                return Ok(Drawn::Done);
            }
            // The surface of a lost device is not valid, either.
            CurrentSurfaceTexture::Lost | CurrentSurfaceTexture::Validation => {
                return Ok(Drawn::Lost);
            }
        };
        let target = texture.texture.create_view(&Default::default());
        let mut encoder = self.filter.device.create_command_encoder(&Default::default());
        match self.filter.encode(&mut encoder, time) {
            Err(tile_runtime::Error::DeviceLost { .. }) => return Ok(Drawn::Lost),
            result => result?,
        }
        let attachment = RenderPassColorAttachment {
            view: &target,
            depth_slice: None,
            resolve_target: None,
            ops: Default::default(),
        };
        let mut pass = encoder.begin_render_pass(&RenderPassDescriptor {
            color_attachments: &[Some(attachment)],
            ..Default::default()
        });
        pass.set_pipeline(&self.pipeline);
        pass.set_bind_group(0, &self.edges, &[]);
        pass.draw(0..3, 0..1);
        drop(pass);
        self.filter.queue.submit([encoder.finish()]);
        self.filter.queue.present(texture);
        Ok(Drawn::Done)
    }
}
