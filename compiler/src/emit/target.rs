//! Listings of a kernel's module in the shading languages of devices.

use naga::back::{glsl, hlsl, msl, spv, wgsl};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use naga::valid::ModuleInfo;
use naga::{Expression, Module, ResourceBinding, Scalar, ShaderStage, TypeInner};

use super::EmitError;
use super::disassembly::disassemble;
use super::module::validated;
use crate::kernel::Kernel;

/// A shading language. The steps of a kernel are numbered after its buffers.
///
/// ```
/// use tile_compiler::emit::Target;
///
/// assert_eq!(Target::parse("msl"), Some(Target::Msl));
/// assert_eq!(Target::Msl.extension(), "metal");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Target {
    /// WGSL for browsers.
    Wgsl,
    /// Metal 2.4. Buffer n is in slot n.
    Msl,
    /// SPIR-V 1.3, for Vulkan 1.1. Buffer n is binding n of set 0.
    Spirv,
    /// HLSL with shader model 6.2. Buffer n is `t` or `u` register n of space 0, and step n a `b`
    /// register.
    Hlsl,
    /// GLSL 4.50. Buffer n is binding n.
    Glsl,
}

impl Target {
    /// The targets in the order in which help lists them.
    pub const ALL: [Target; 5] =
        [Target::Wgsl, Target::Msl, Target::Spirv, Target::Hlsl, Target::Glsl];

    /// Returns the name on the command line: `msl`.
    pub fn name(self) -> &'static str {
        match self {
            Target::Wgsl => "wgsl",
            Target::Msl => "msl",
            Target::Spirv => "spirv",
            Target::Hlsl => "hlsl",
            Target::Glsl => "glsl",
        }
    }

    /// Returns the target with this name.
    pub fn parse(name: &str) -> Option<Target> {
        Target::ALL.into_iter().find(|target| target.name() == name)
    }

    /// Returns the file name extension of listings: `metal`.
    pub fn extension(self) -> &'static str {
        match self {
            Target::Wgsl => "wgsl",
            Target::Msl => "metal",
            Target::Spirv => "spv",
            Target::Hlsl => "hlsl",
            Target::Glsl => "comp",
        }
    }

    /// Returns whether the language has the type, without extensions that devices rarely support.
    fn has(self, scalar: Scalar) -> bool {
        match self {
            Target::Wgsl => ![Scalar::I64, Scalar::U64, Scalar::F64].contains(&scalar),
            Target::Msl => scalar != Scalar::F64,
            Target::Spirv | Target::Hlsl => true,
            Target::Glsl => ![Scalar::I64, Scalar::U64, Scalar::F16].contains(&scalar),
        }
    }
}

/// A kernel in a shading language.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listing {
    /// The text of the languages that are written as text.
    Text(String),
    /// A SPIR-V module.
    Words(Vec<u32>),
}

impl Listing {
    /// Returns the contents of a file: text, or words in little-endian order.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Listing::Text(text) => text.clone().into_bytes(),
            Listing::Words(words) => words.iter().flat_map(|word| word.to_le_bytes()).collect(),
        }
    }

    /// Returns a readable form: text, or disassembled words.
    pub fn text(&self) -> String {
        match self {
            Listing::Text(text) => text.clone(),
            Listing::Words(words) => disassemble(words),
        }
    }
}

/// Returns the kernel's listing: the content of [`super::module`] in the target's language.
///
/// Fails as [`super::module`] does, and for types that the target lacks.
pub fn write(kernel: &Kernel, target: Target) -> Result<Listing, EmitError> {
    let (module, info) = validated(kernel)?;
    for (_, ty) in module.types.iter() {
        let (TypeInner::Scalar(scalar) | TypeInner::Vector { scalar, .. }) = ty.inner else {
            continue;
        };
        if !target.has(scalar) {
            return Err(EmitError::new(
                kernel,
                format!("{} has no {}", target.name(), name(scalar)),
            ));
        }
    }
    let fits = |size| match target {
        Target::Wgsl | Target::Spirv => true,
        Target::Msl => size == 8,
        Target::Hlsl | Target::Glsl => false,
    };
    if let Some(matrix) = kernel.matrices.iter().find(|matrix| !fits(matrix.size)) {
        let message =
            format!("{} has no matrices of {size} x {size}", target.name(), size = matrix.size);
        return Err(EmitError::new(kernel, message));
    }
    let written = match target {
        Target::Wgsl => write_wgsl(&module, &info).map_err(|e| e.to_string()),
        Target::Msl => write_msl(kernel, &module, &info).map_err(|e| e.to_string()),
        Target::Hlsl => write_hlsl(kernel, &module, &info).map_err(|e| e.to_string()),
        Target::Glsl => write_glsl(kernel, &module, &info).map_err(|e| e.to_string()),
        Target::Spirv => {
            let words = write_spirv(kernel, &module, &info);
            return words.map(Listing::Words).map_err(|e| refused(kernel, target, e.to_string()));
        }
    };
    written.map(Listing::Text).map_err(|e| refused(kernel, target, e))
}

fn refused(kernel: &Kernel, target: Target, why: String) -> EmitError {
    EmitError::new(kernel, format!("{} can't say it: {why}", target.name()))
}

const UNCHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Unchecked,
    buffer: BoundsCheckPolicy::Unchecked,
    image_load: BoundsCheckPolicy::Unchecked,
    binding_array: BoundsCheckPolicy::Unchecked,
};

/// Returns the resource binding of each buffer and step, and its number.
fn bindings(kernel: &Kernel) -> impl Iterator<Item = (ResourceBinding, u32)> {
    (0..(kernel.buffers.len() + kernel.steps.len()) as u32)
        .map(|binding| (ResourceBinding { group: 0, binding }, binding))
}

fn write_wgsl(module: &Module, info: &ModuleInfo) -> Result<String, wgsl::Error> {
    let text = wgsl::write_string(module, info, wgsl::WriterFlags::empty())?;
    // Browsers require this directive for subgroup operations, but naga does not write it.
    let collects =
        |expression: &Expression| matches!(expression, Expression::SubgroupOperationResult { .. });
    let mut expressions =
        module.entry_points.iter().flat_map(|entry| entry.function.expressions.iter());
    let enable = if expressions.any(|(_, expression)| collects(expression)) {
        "enable subgroups;\n"
    } else {
        ""
    };
    Ok(format!("{enable}{text}"))
}

fn write_msl(kernel: &Kernel, module: &Module, info: &ModuleInfo) -> Result<String, msl::Error> {
    let target =
        |slot| msl::BindTarget { buffer: Some(slot as u8), mutable: true, ..Default::default() };
    let resources = bindings(kernel).map(|(binding, slot)| (binding, target(slot))).collect();
    let resources =
        msl::EntryPointResources { resources, immediates_buffer: None, sizes_buffer: None };
    let options = msl::Options {
        lang_version: (2, 4),
        per_entry_point_map: [(kernel.name.clone(), resources)].into(),
        fake_missing_bindings: false,
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: false,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    msl::write_string(module, info, &options, &Default::default()).map(|(text, _)| text)
}

fn write_spirv(
    kernel: &Kernel,
    module: &Module,
    info: &ModuleInfo,
) -> Result<Vec<u32>, spv::Error> {
    let options = spv::Options {
        lang_version: (1, 3),
        // Names are for readers. They are in debug and release builds alike.
        flags: spv::WriterFlags::DEBUG,
        fake_missing_bindings: false,
        binding_map: bindings(kernel)
            .map(|(place, binding)| {
                (place, spv::BindingInfo { descriptor_set: 0, binding, binding_array_size: None })
            })
            .collect(),
        bounds_check_policies: UNCHECKED,
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: false,
        emit_int_div_checks: false,
        ..Default::default()
    };
    let pipeline = spv::PipelineOptions {
        shader_stage: ShaderStage::Compute,
        entry_point: kernel.name.clone(),
    };
    spv::write_vec(module, info, &options, Some(&pipeline))
}

fn write_hlsl(kernel: &Kernel, module: &Module, info: &ModuleInfo) -> Result<String, hlsl::Error> {
    let options = hlsl::Options {
        shader_model: hlsl::ShaderModel::V6_2,
        binding_map: bindings(kernel)
            .map(|(place, register)| (place, hlsl::BindTarget { register, ..Default::default() }))
            .collect(),
        fake_missing_bindings: false,
        zero_initialize_workgroup_memory: false,
        restrict_indexing: false,
        force_loop_bounding: false,
        ..Default::default()
    };
    let mut text = String::new();
    hlsl::Writer::new(&mut text, &options, &Default::default()).write(module, info, None)?;
    Ok(text)
}

fn write_glsl(kernel: &Kernel, module: &Module, info: &ModuleInfo) -> Result<String, glsl::Error> {
    let options = glsl::Options {
        version: glsl::Version::Desktop(450),
        writer_flags: glsl::WriterFlags::empty(),
        binding_map: bindings(kernel).map(|(place, binding)| (place, binding as u8)).collect(),
        zero_initialize_workgroup_memory: false,
    };
    let pipeline = glsl::PipelineOptions {
        shader_stage: ShaderStage::Compute,
        entry_point: kernel.name.clone(),
        multiview: None,
    };
    let mut text = String::new();
    glsl::Writer::new(&mut text, module, info, &options, &pipeline, UNCHECKED)?.write()?;
    Ok(text)
}

/// Returns the name of a type in kernels.
fn name(scalar: Scalar) -> String {
    let letter = match scalar.kind {
        naga::ScalarKind::Sint => "i",
        naga::ScalarKind::Uint => "u",
        naga::ScalarKind::Float => "f",
        _ => return "bool".into(),
    };
    format!("{letter}{}", 8 * scalar.width)
}
