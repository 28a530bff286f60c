//! Creates the naga module of a kernel: types, buffers, workgroup memory and entry point.

use std::collections::HashMap;
use std::error::Error;
use std::num::NonZeroU32;

use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga::{
    AddressSpace, ArraySize, Binding, Block, BuiltIn, EntryPoint, Expression, Function,
    FunctionArgument, GlobalVariable, Handle, Module, ResourceBinding, ShaderStage, Span,
    StorageAccess, TypeInner, VectorSize,
};

use super::EmitError;
use crate::dtype::{DType, Scalar};
use crate::kernel::{Access, Builtin, Kernel, Type, VariableId};

/// Returns the kernel as a validated naga module with one compute entry point. The launch grid is
/// not part of it.
///
/// Fails if the kernel does not verify, or if an array exceeds the size limit of shaders.
pub fn module(kernel: &Kernel) -> Result<Module, EmitError> {
    Ok(validated(kernel)?.0)
}

/// Returns the module and the validator's information, which the writers need.
pub(super) fn validated(kernel: &Kernel) -> Result<(Module, ModuleInfo), EmitError> {
    kernel
        .verify()
        .map_err(|invalid| EmitError { kernel: invalid.kernel, message: invalid.message })?;
    let mut emitter = Emitter::new(kernel)?;
    let body = emitter.statements(&kernel.body)?;
    emitter.block.extend_block(body);
    let module = emitter.finish();
    // All types are allowed here: the writer of each target checks its own.
    let capabilities = Capabilities::SHADER_FLOAT16
        | Capabilities::SHADER_INT64
        | Capabilities::FLOAT64
        | Capabilities::SUBGROUP
        | Capabilities::COOPERATIVE_MATRIX;
    match Validator::new(ValidationFlags::all(), capabilities).validate(&module) {
        Ok(info) => Ok((module, info)),
        Err(error) => {
            let mut message = format!("naga refuses its module: {}", error.as_inner());
            let mut cause = error.as_inner().source();
            while let Some(error) = cause {
                message.push_str(&format!(": {error}"));
                cause = error.source();
            }
            Err(EmitError::new(kernel, message))
        }
    }
}

/// The representation of a kernel's variable in the module.
#[derive(Clone, Copy)]
pub(super) enum Variable {
    Value(Handle<Expression>),
    /// The bits of an i32 value as u32; see `index.rs`.
    Index(Handle<Expression>),
    /// A pointer to a local variable.
    Local(Handle<Expression>),
}

/// A module under construction. `block` is the innermost block of its function.
pub(super) struct Emitter<'a> {
    pub kernel: &'a Kernel,
    pub module: Module,
    pub function: Function,
    pub block: Block,
    /// Pointers to the kernel's buffers and workgroup arrays, by number.
    pub buffers: Vec<Handle<Expression>>,
    pub shared: Vec<Handle<Expression>>,
    /// Pointers to the local variables that hold the matrices, by number.
    pub matrices: Vec<Handle<Expression>>,
    pub workgroup_id: Handle<Expression>,
    pub local_id: Handle<Expression>,
    /// The subgroup built-ins that the kernel reads, as u32 arguments of the function.
    subgroup_inputs: HashMap<Builtin, Handle<Expression>>,
    /// The values of the kernel's steps, as u32.
    pub steps: Vec<Handle<Expression>>,
    /// The variables declared so far, by number.
    pub variables: HashMap<VariableId, Variable>,
    /// Finite literals, and pointers to the bits of other ones. Each is written once.
    pub literals: HashMap<Scalar, Handle<Expression>>,
}

impl<'a> Emitter<'a> {
    fn new(kernel: &'a Kernel) -> Result<Emitter<'a>, EmitError> {
        let mut module = Module::default();
        let mut function = Function::default();
        let three = TypeInner::Vector { size: VectorSize::Tri, scalar: naga::Scalar::U32 };
        let ty = module.types.insert(naga::Type { name: None, inner: three }, Span::UNDEFINED);
        let mut argument = |at: u32, name: &str, builtin| {
            let binding = Some(Binding::BuiltIn(builtin));
            function.arguments.push(FunctionArgument { name: Some(name.into()), ty, binding });
            function.expressions.append(Expression::FunctionArgument(at), Span::UNDEFINED)
        };
        let mut emitter = Emitter {
            kernel,
            workgroup_id: argument(0, "workgroup_id", BuiltIn::WorkGroupId),
            local_id: argument(1, "local_id", BuiltIn::LocalInvocationId),
            module,
            function,
            block: Block::new(),
            buffers: Vec::new(),
            shared: Vec::new(),
            matrices: Vec::new(),
            subgroup_inputs: HashMap::new(),
            steps: Vec::new(),
            variables: HashMap::new(),
            literals: HashMap::new(),
        };
        for (at, buffer) in kernel.buffers.iter().enumerate() {
            let access = match buffer.access {
                Access::Read => StorageAccess::LOAD,
                Access::Write | Access::Update => StorageAccess::LOAD | StorageAccess::STORE,
            };
            let binding = Some(ResourceBinding { group: 0, binding: at as u32 });
            let space = AddressSpace::Storage { access };
            let pointer = emitter.array(&buffer.name, buffer.ty, buffer.length, space, binding)?;
            emitter.buffers.push(pointer);
        }
        for shared in &kernel.shared {
            let pointer = emitter.array(
                &shared.name,
                shared.ty,
                shared.length,
                AddressSpace::WorkGroup,
                None,
            )?;
            emitter.shared.push(pointer);
        }
        for matrix in &kernel.matrices {
            let ty = emitter.matrix_type(matrix);
            let pointer = emitter.local_of(&matrix.name, ty, None);
            emitter.matrices.push(pointer);
        }
        for (at, name) in (kernel.buffers.len() as u32..).zip(&kernel.steps) {
            let ty = emitter.ty(Type::scalar(DType::U32));
            let binding = Some(ResourceBinding { group: 0, binding: at });
            let pointer = emitter.global(name, AddressSpace::Uniform, ty, binding);
            let value = emitter.emit(Expression::Load { pointer });
            emitter.function.named_expressions.insert(value, name.clone());
            emitter.steps.push(value);
        }
        Ok(emitter)
    }

    /// Adds a global array and returns the pointer to it.
    fn array(
        &mut self,
        name: &str,
        ty: Type,
        length: usize,
        space: AddressSpace,
        binding: Option<ResourceBinding>,
    ) -> Result<Handle<Expression>, EmitError> {
        let stride = ty.lanes as u32 * scalar(ty.dtype).width as u32;
        let bytes = length as u128 * stride as u128;
        let count = u32::try_from(length)
            .ok()
            .and_then(NonZeroU32::new)
            .filter(|_| bytes <= MAX_ARRAY_BYTES as u128);
        let Some(count) = count else {
            let message = format!(
                "`{name}` takes {bytes} bytes; a shader's array has at most {MAX_ARRAY_BYTES}"
            );
            return Err(EmitError::new(self.kernel, message));
        };
        let base = self.ty(ty);
        let inner = TypeInner::Array { base, size: ArraySize::Constant(count), stride };
        let ty = self.module.types.insert(naga::Type { name: None, inner }, Span::UNDEFINED);
        Ok(self.global(name, space, ty, binding))
    }

    /// Adds a global variable and returns the pointer to it.
    fn global(
        &mut self,
        name: &str,
        space: AddressSpace,
        ty: Handle<naga::Type>,
        binding: Option<ResourceBinding>,
    ) -> Handle<Expression> {
        let memory_decorations = naga::MemoryDecorations::empty();
        let global = GlobalVariable {
            name: Some(name.into()),
            space,
            binding,
            ty,
            init: None,
            memory_decorations,
        };
        let global = self.module.global_variables.append(global, Span::UNDEFINED);
        self.function.expressions.append(Expression::GlobalVariable(global), Span::UNDEFINED)
    }

    /// Returns the module's type for a type of the kernel.
    pub fn ty(&mut self, ty: Type) -> Handle<naga::Type> {
        let scalar = scalar(ty.dtype);
        let inner = match size(ty.lanes) {
            Some(size) => TypeInner::Vector { size, scalar },
            None => TypeInner::Scalar(scalar),
        };
        self.module.types.insert(naga::Type { name: None, inner }, Span::UNDEFINED)
    }

    /// Returns the argument for a subgroup built-in, and adds it if necessary.
    pub fn subgroup_input(&mut self, builtin: Builtin) -> Handle<Expression> {
        if let Some(&known) = self.subgroup_inputs.get(&builtin) {
            return known;
        }
        let (name, binding) = match builtin {
            Builtin::SubgroupLane => ("subgroup_lane", BuiltIn::SubgroupInvocationId),
            Builtin::Subgroups => ("subgroups", BuiltIn::NumSubgroups),
            _ => ("subgroup", BuiltIn::SubgroupId),
        };
        let ty = self.ty(Type::scalar(DType::U32));
        let (name, binding) = (Some(name.into()), Some(Binding::BuiltIn(binding)));
        let number = self.function.arguments.len() as u32;
        self.function.arguments.push(FunctionArgument { name, ty, binding });
        let value =
            self.function.expressions.append(Expression::FunctionArgument(number), Span::UNDEFINED);
        self.subgroup_inputs.insert(builtin, value);
        value
    }

    fn finish(mut self) -> Module {
        self.function.body = self.block;
        self.module.entry_points.push(EntryPoint {
            name: self.kernel.name.clone(),
            stage: ShaderStage::Compute,
            early_depth_test: None,
            workgroup_size: self.kernel.workgroup,
            workgroup_size_overrides: None,
            function: self.function,
            mesh_info: None,
            task_payload: None,
            incoming_ray_payload: None,
        });
        self.module
    }
}

/// Size limit of naga. It also limits indices, which are i32.
const MAX_ARRAY_BYTES: u32 = naga::valid::MAX_TYPE_SIZE;

/// Returns naga's type for an element type of kernels.
pub(super) fn scalar(dtype: DType) -> naga::Scalar {
    match dtype {
        DType::Bool => naga::Scalar::BOOL,
        DType::I32 | DType::I8 | DType::I16 => naga::Scalar::I32,
        DType::U32 | DType::U8 | DType::U16 => naga::Scalar::U32,
        DType::I64 => naga::Scalar::I64,
        DType::U64 => naga::Scalar::U64,
        DType::F16 => naga::Scalar::F16,
        DType::F32 | DType::BF16 => naga::Scalar::F32,
        DType::F64 => naga::Scalar::F64,
    }
}

/// Returns the size of a vector, or `None` for a scalar.
pub(super) fn size(lanes: u8) -> Option<VectorSize> {
    match lanes {
        2 => Some(VectorSize::Bi),
        4 => Some(VectorSize::Quad),
        _ => None,
    }
}
