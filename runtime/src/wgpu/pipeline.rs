//! Compilation of a plan's kernels to pipelines, on one thread for each processor where there are
//! threads.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};

use tile_compiler::dense::Dense;
use tile_compiler::kernel::{Access, Buffer, Kernel};
use tile_compiler::plan::{Plan, RoutineId};
use wgpu::{
    BindGroupLayoutDescriptor, BindGroupLayoutEntry, BindingType, BufferBindingType, BufferSize,
    ComputePipeline, ComputePipelineDescriptor, PipelineCompilationOptions,
    PipelineLayoutDescriptor, ShaderModuleDescriptor, ShaderRuntimeChecks, ShaderSource,
    ShaderStages,
};

use super::gpu::Gpu;
use crate::backend::{Report, block_on, kernel};
use crate::error::Error;

/// Compiles a pipeline for each of the plan's routines. With `checked`, kernels check their
/// accesses. Calls `report` at first and after each, with the number compiled and that of all.
pub async fn pipelines(
    gpu: &Gpu,
    plan: &Plan,
    checked: bool,
    report: Option<&Report>,
) -> Result<Dense<RoutineId, ComputePipeline>, Error> {
    let kernels: Vec<&Kernel> = plan.routines.iter().map(kernel).collect::<Result<_, _>>()?;
    let compiled = AtomicUsize::new(0);
    let all = kernels.len();
    report.inspect(|report| report(0, all));
    let done = || {
        let number = compiled.fetch_add(1, Ordering::Relaxed) + 1;
        report.inspect(|report| report(number, all));
    };
    let pipelines = compile_all(gpu, &kernels, checked, &done).await?;
    gpu.compiled.keep();
    Ok(pipelines.into())
}

/// Compiles a pipeline for each kernel, and calls `done` after each.
#[cfg(target_family = "wasm")]
pub(super) async fn compile_all(
    gpu: &Gpu,
    kernels: &[&Kernel],
    checked: bool,
    done: &dyn Fn(),
) -> Result<Vec<ComputePipeline>, Error> {
    let compile = |kernel: &&Kernel| compile(gpu, kernel, checked).inspect(|_| done());
    gpu.scoped(DOING, || kernels.iter().map(compile).collect()).await
}

/// Compiles a pipeline for each kernel, on several threads, and calls `done` after each.
#[cfg(not(target_family = "wasm"))]
pub(super) async fn compile_all(
    gpu: &Gpu,
    kernels: &[&Kernel],
    checked: bool,
    done: &(dyn Fn() + Sync),
) -> Result<Vec<ComputePipeline>, Error> {
    let next = AtomicUsize::new(0);
    // Each thread takes the next kernel until none is left. Error scopes belong to a thread.
    let work = || {
        let mut compiled = Vec::new();
        while let Some((number, kernel)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|n| Some((n, kernels.get(n)?)))
        {
            compiled.push((number, block_on(gpu.scoped(DOING, || compile(gpu, kernel, checked)))));
            done();
        }
        compiled
    };
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get()).min(kernels.len());
    let mut compiled = std::thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut compiled = work();
        for helper in helpers {
            let panicked = |_| Error::internal("a thread that compiles kernels panicked");
            compiled.extend(helper.join().map_err(panicked)?);
        }
        Ok::<_, Error>(compiled)
    })?;
    compiled.sort_by_key(|(number, _)| *number);
    compiled.into_iter().map(|(_, pipeline)| pipeline).collect()
}

/// The description of this work in errors.
const DOING: &str = "to compile the program's kernels";

fn compile(gpu: &Gpu, kernel: &Kernel, checked: bool) -> Result<ComputePipeline, Error> {
    let module = tile_compiler::emit::module(kernel).map_err(Error::bug)?;
    let label = Some(kernel.name.as_str());
    let descriptor =
        ShaderModuleDescriptor { label, source: ShaderSource::Naga(Cow::Owned(module)) };
    let checks =
        if checked { ShaderRuntimeChecks::checked() } else { ShaderRuntimeChecks::unchecked() };
    // SAFETY: the shader runs without runtime checks unless `checked`.
    // - Accesses: the compiler has proven that each is inside its buffer.
    // - Divisors: the compiler has proven that none is 0.
    // - Loops: all are counted.
    // - Bound buffers: they have the kernel's lengths.
    let module = unsafe { gpu.device.create_shader_module_trusted(descriptor, checks) };
    // With sizes given here, wgpu checks buffers when they are bound and not at every launch.
    let buffers = kernel.buffers.iter().map(|buffer| BindingType::Buffer {
        ty: BufferBindingType::Storage { read_only: buffer.access == Access::Read },
        has_dynamic_offset: false,
        min_binding_size: BufferSize::new(bytes(buffer)),
    });
    let turns = kernel.steps.iter().map(|_| BindingType::Buffer {
        ty: BufferBindingType::Uniform,
        has_dynamic_offset: true,
        min_binding_size: BufferSize::new(size_of::<u32>() as u64),
    });
    let entries: Vec<BindGroupLayoutEntry> = (0..)
        .zip(buffers.chain(turns))
        .map(|(binding, ty)| BindGroupLayoutEntry {
            binding,
            visibility: ShaderStages::COMPUTE,
            ty,
            count: None,
        })
        .collect();
    let bind_group_layout = gpu
        .device
        .create_bind_group_layout(&BindGroupLayoutDescriptor { label, entries: &entries });
    let layout = gpu.device.create_pipeline_layout(&PipelineLayoutDescriptor {
        label,
        bind_group_layouts: &[Some(&bind_group_layout)],
        immediate_size: 0,
    });
    Ok(gpu.device.create_compute_pipeline(&ComputePipelineDescriptor {
        label,
        layout: Some(&layout),
        module: &module,
        entry_point: None,
        compilation_options: PipelineCompilationOptions {
            zero_initialize_workgroup_memory: false,
            ..PipelineCompilationOptions::default()
        },
        cache: gpu.compiled.cache(),
    }))
}

fn bytes(buffer: &Buffer) -> u64 {
    (buffer.length * usize::from(buffer.ty.lanes) * buffer.ty.dtype.size()) as u64
}
