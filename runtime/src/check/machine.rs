//! The state of a dispatch: its variables, and a frame for each running function.

use std::rc::Rc;

use naga::valid::{FunctionInfo, GlobalUse, ModuleInfo};
use naga::{AddressSpace, Arena, BuiltIn, Expression, Function, Handle, Module};

use super::fault::{Code, Kind, Result};
use super::layout::{Layout, Layouts, Typed};
use super::memory::Memory;
use super::value::{Column, Lanes, Pointer, Value};
use super::{Options, Unwritten};

/// The state of a dispatch.
pub(super) struct Machine<'a> {
    pub module: &'a Module,
    pub options: &'a Options,
    pub layouts: Layouts,
    /// The number of invocations of a workgroup.
    pub lanes: usize,
    /// The variables: the entry point's globals, then the locals of the running functions.
    pub memories: Vec<Memory>,
    /// For each global, by handle, its index in `memories` if the entry point uses it.
    globals: Vec<Option<usize>>,
    functions: Vec<Rc<Body<'a>>>,
    /// The values of the module's constant expressions.
    pub constants: Vec<Value>,
}

/// The expressions whose values a frame holds, and their types.
pub(super) struct Body<'a> {
    pub expressions: &'a Arena<Expression>,
    pub typed: Vec<Typed>,
}

impl<'a> Body<'a> {
    pub fn new(
        module: &Module,
        layouts: &Layouts,
        function: &'a Function,
        info: &FunctionInfo,
    ) -> Self {
        let expressions = &function.expressions;
        let typed = expressions
            .iter()
            .map(|(handle, _)| layouts.typed(info[handle].ty.inner_with(&module.types)));
        Self { expressions, typed: typed.collect() }
    }
}

/// A running function.
pub(super) struct Frame<'a> {
    pub body: Rc<Body<'a>>,
    values: Vec<Option<Value>>,
    pub arguments: Vec<Value>,
    /// The indices of the local variables in the machine's memories, by handle.
    pub locals: Vec<usize>,
    /// The lanes that have left the innermost loop or switch (`breaks`), or its iteration
    /// (`continues`).
    pub breaks: Lanes,
    pub continues: Lanes,
    /// The values returned so far, by lane.
    pub result: Option<Column>,
}

impl<'a> Frame<'a> {
    pub fn new(body: Rc<Body<'a>>, arguments: Vec<Value>) -> Self {
        let values = vec![None; body.expressions.len()];
        let (locals, breaks, continues) = (Vec::new(), Lanes::new(), Lanes::new());
        Self { body, values, arguments, locals, breaks, continues, result: None }
    }

    pub fn set(&mut self, expression: Handle<Expression>, value: Value) {
        self.values[expression.index()] = Some(value);
    }

    pub fn value(&self, expression: Handle<Expression>) -> Result<&Value> {
        let missing = || Kind::Invalid("an expression is used before it is emitted".to_owned());
        Ok(self.values[expression.index()].as_ref().ok_or_else(missing)?)
    }

    pub fn data(&self, expression: Handle<Expression>) -> Result<&Column> {
        match self.value(expression)? {
            Value::Data(column) => Ok(column),
            Value::Pointer(_) => Err(self.mistyped(expression)),
        }
    }

    pub fn pointer(&self, expression: Handle<Expression>) -> Result<&Pointer> {
        match self.value(expression)? {
            Value::Pointer(pointer) => Ok(pointer),
            Value::Data(_) => Err(self.mistyped(expression)),
        }
    }

    /// Returns the layout of an expression's data, or of a pointer's target.
    pub fn layout(&self, expression: Handle<Expression>) -> Result<&Rc<Layout>> {
        match &self.body.typed[expression.index()] {
            Typed::Data(layout) | Typed::Pointer(layout) => Ok(layout),
            Typed::Opaque => Err(self.mistyped(expression)),
        }
    }

    /// Returns the scalar type of an expression's components.
    pub fn scalar(&self, expression: Handle<Expression>) -> Result<naga::Scalar> {
        let scalar = self.layout(expression)?.element_scalar();
        scalar.ok_or_else(|| self.mistyped(expression))
    }

    fn mistyped(&self, expression: Handle<Expression>) -> Box<super::Fault> {
        Kind::unsupported(&self.body.expressions[expression]).into()
    }

    fn missing(&self, expression: Handle<Expression>) -> bool {
        self.values[expression.index()].is_none()
    }
}

impl<'a> Machine<'a> {
    /// Creates a machine whose globals are not bound yet.
    pub fn new(
        module: &'a Module,
        info: &ModuleInfo,
        options: &'a Options,
        lanes: usize,
    ) -> Result<Self> {
        let layouts = Layouts::new(module);
        let functions = module
            .functions
            .iter()
            .map(|(handle, function)| Rc::new(Body::new(module, &layouts, function, &info[handle])))
            .collect();
        let (memories, globals, constants) = (Vec::new(), Vec::new(), Vec::new());
        let mut machine =
            Self { module, options, layouts, lanes, memories, globals, functions, constants };
        machine.evaluate_constants(info)?;
        Ok(machine)
    }

    /// Binds the globals that an entry point uses. Storage and uniform buffers take the bytes of
    /// `buffers`, by binding.
    pub fn bind(&mut self, used: &FunctionInfo, buffers: &mut [Vec<u8>]) -> Result<()> {
        for (handle, global) in self.module.global_variables.iter() {
            let mut index = None;
            if used[handle] != GlobalUse::empty() {
                let memory = self.global(global, buffers)?;
                index = Some(self.memories.len());
                self.memories.push(memory);
            }
            self.globals.push(index);
        }
        Ok(())
    }

    fn evaluate_constants(&mut self, info: &ModuleInfo) -> Result<()> {
        let expressions = &self.module.global_expressions;
        let types = &self.module.types;
        let typed = expressions
            .iter()
            .map(|(handle, _)| self.layouts.typed(info[handle].inner_with(types)))
            .collect();
        let mut frame = Frame::new(Rc::new(Body { expressions, typed }), Vec::new());
        let lanes: Lanes = (0..self.lanes).collect();
        for (handle, _) in expressions.iter() {
            let value = self.evaluate(&frame, handle, &lanes)?;
            self.constants.push(value.clone());
            frame.set(handle, value);
        }
        Ok(())
    }

    fn global(&self, global: &naga::GlobalVariable, buffers: &mut [Vec<u8>]) -> Result<Memory> {
        let invalid = |reason: String| Kind::Invalid(reason);
        let binding = global.binding.as_ref().map(|resource| resource.binding);
        let name = match (&global.name, binding) {
            (Some(name), _) => name.clone(),
            (None, Some(binding)) => format!("binding {binding}"),
            (None, None) => "a variable".to_owned(),
        };
        let layout = self
            .layouts
            .get(global.ty)
            .ok_or_else(|| Kind::unsupported(&self.module.types[global.ty].inner))?;
        let layout = layout.clone();
        Ok(match global.space {
            AddressSpace::Storage { .. } | AddressSpace::Uniform => {
                let resource = global.binding.as_ref().filter(|resource| resource.group == 0);
                let resource =
                    resource.ok_or_else(|| invalid(format!("`{name}` is not bound in group 0")))?;
                let buffer = buffers.get_mut(resource.binding as usize);
                let buffer = buffer
                    .ok_or_else(|| invalid(format!("no buffer at binding {}", resource.binding)))?;
                if buffer.len() < layout.size {
                    let (is, needed) = (buffer.len(), layout.size);
                    return Err(invalid(format!(
                        "the buffer of `{name}` has {is} bytes, and needs {needed}"
                    ))
                    .into());
                }
                let defined = !self.options.undefined.contains(&resource.binding);
                Memory::shared(name, global.space, layout, std::mem::take(buffer), defined)
            }
            AddressSpace::Immediate => {
                let immediates = self.options.immediates.clone();
                if immediates.len() < layout.size {
                    return Err(invalid(format!(
                        "`{name}` needs {} bytes of immediates",
                        layout.size
                    ))
                    .into());
                }
                Memory::shared(name, global.space, layout, immediates, true)
            }
            AddressSpace::WorkGroup => {
                let bytes = vec![0; layout.size];
                Memory::shared(
                    name,
                    global.space,
                    layout,
                    bytes,
                    self.options.zeroed_workgroup_memory,
                )
            }
            AddressSpace::Private => Memory::private(name, global.space, layout, self.lanes),
            space => return Err(Kind::unsupported(&space).into()),
        })
    }

    /// Returns the bytes to the buffers, and reports the parts that are still undefined.
    pub fn release(mut self, buffers: &mut [Vec<u8>]) -> Vec<Unwritten> {
        let mut unwritten = Vec::new();
        for ((_, global), index) in self.module.global_variables.iter().zip(&self.globals) {
            let (Some(index), Some(resource)) = (*index, global.binding) else { continue };
            let (memory, binding) = (&mut self.memories[index], resource.binding);
            unwritten
                .extend(memory.undefined().into_iter().map(|bytes| Unwritten { binding, bytes }));
            if let Some(buffer) = buffers.get_mut(binding as usize) {
                *buffer = memory.take_bytes();
            }
        }
        unwritten
    }

    /// Returns the memory of a global, if the entry point uses it.
    pub fn bound(&self, global: Handle<naga::GlobalVariable>) -> Option<usize> {
        *self.globals.get(global.index())?
    }

    /// Runs one workgroup. `inputs` returns the built-in inputs.
    pub fn workgroup(
        &mut self,
        body: &Rc<Body<'a>>,
        entry_point: &'a naga::EntryPoint,
        index: usize,
        inputs: &impl Fn(BuiltIn) -> Option<Column>,
    ) -> Result<()> {
        for memory in &mut self.memories {
            memory.start_workgroup(index);
        }
        let lanes: Lanes = (0..self.lanes).collect();
        for (handle, global) in self.module.global_variables.iter() {
            let init = global.init.and_then(|init| self.constants.get(init.index()).cloned());
            if let (Some(memory), Some(Value::Data(value))) = (self.bound(handle), init) {
                self.initialise(memory, global.ty, &value, &lanes)?;
            }
        }
        let input = |binding: &Option<naga::Binding>| match binding {
            Some(naga::Binding::BuiltIn(built_in)) => {
                inputs(*built_in).ok_or_else(|| Kind::unsupported(built_in))
            }
            _ => Err(Kind::Unsupported("an input that is no built-in".to_owned())),
        };
        let mut arguments = Vec::new();
        for argument in &entry_point.function.arguments {
            let column = match (&argument.binding, &self.module.types[argument.ty].inner) {
                (None, naga::TypeInner::Struct { members, .. }) => {
                    let parts = members.iter().map(|member| input(&member.binding));
                    let parts = parts.collect::<std::result::Result<Vec<_>, _>>()?;
                    Column::concatenate(self.lanes, parts.iter())
                }
                (binding, _) => input(binding)?,
            };
            arguments.push(Value::Data(column));
        }
        self.run(body, &entry_point.function, arguments, lanes).map(|_| ())
    }

    /// Calls a function of the module.
    pub fn call(
        &mut self,
        function: Handle<Function>,
        arguments: Vec<Value>,
        lanes: Lanes,
    ) -> Result<Option<Column>> {
        let body = self.functions[function.index()].clone();
        let module = self.module;
        self.run(&body, &module.functions[function], arguments, lanes)
            .map_err(|fault| fault.in_function(Code::Function(function)))
    }

    /// Runs a function and returns the result of each lane.
    fn run(
        &mut self,
        body: &Rc<Body<'a>>,
        function: &'a Function,
        arguments: Vec<Value>,
        lanes: Lanes,
    ) -> Result<Option<Column>> {
        let floor = self.memories.len();
        let mut frame = Frame::new(body.clone(), arguments);
        for (_, local) in function.local_variables.iter() {
            let inner = &self.module.types[local.ty].inner;
            let layout = self.layouts.get(local.ty).ok_or_else(|| Kind::unsupported(inner))?;
            let name = local.name.clone().unwrap_or_else(|| "a local variable".to_owned());
            frame.locals.push(self.memories.len());
            self.memories.push(Memory::private(
                name,
                AddressSpace::Function,
                layout.clone(),
                self.lanes,
            ));
        }
        for (handle, expression) in function.expressions.iter() {
            if expression.needs_pre_emit() && !self.is_idle(expression) {
                let value = self.evaluate(&frame, handle, &lanes)?;
                frame.set(handle, value);
            }
        }
        for (handle, local) in function.local_variables.iter() {
            if let Some(init) = local.init {
                self.evaluate_constant(&mut frame, init, &lanes)?;
                let memory = frame.locals[handle.index()];
                self.initialise(memory, local.ty, frame.data(init)?, &lanes)?;
            }
        }
        self.block(&mut frame, &function.body, lanes)?;
        self.memories.truncate(floor);
        Ok(frame.result)
    }

    /// Returns whether the expression names a global of another entry point, which this one cannot
    /// reach.
    fn is_idle(&self, expression: &Expression) -> bool {
        matches!(expression, Expression::GlobalVariable(global) if self.bound(*global).is_none())
    }

    /// Evaluates an initial value, which no `Emit` covers.
    fn evaluate_constant(
        &mut self,
        frame: &mut Frame<'a>,
        expression: Handle<Expression>,
        lanes: &[usize],
    ) -> Result<()> {
        if !frame.missing(expression) {
            return Ok(());
        }
        let expressions = frame.body.expressions;
        let operands: &[Handle<Expression>] = match &expressions[expression] {
            Expression::Compose { components, .. } => components,
            Expression::Splat { value, .. } => std::slice::from_ref(value),
            _ => &[],
        };
        for operand in operands {
            self.evaluate_constant(frame, *operand, lanes)?;
        }
        let value = self.evaluate(frame, expression, lanes)?;
        frame.set(expression, value);
        Ok(())
    }

    fn initialise(
        &mut self,
        memory: usize,
        ty: Handle<naga::Type>,
        value: &Column,
        lanes: &[usize],
    ) -> Result<()> {
        let Some(layout) = self.layouts.get(ty).cloned() else { return Ok(()) };
        self.store(&Pointer { memory, offsets: vec![0; self.lanes] }, &layout, value, lanes)
    }

    /// Loads the value at a pointer, for each of `lanes`.
    pub fn load(&mut self, pointer: &Pointer, layout: &Layout, lanes: &[usize]) -> Result<Column> {
        let leaves = layout.leaves();
        let mut column = Column::zero(self.lanes, leaves.len());
        let memory = &mut self.memories[pointer.memory];
        for (index, &leaf) in leaves.iter().enumerate() {
            let words = column.component_mut(index);
            for &lane in lanes {
                words[lane] = memory.read(pointer, leaf, lane)?;
            }
        }
        Ok(column)
    }

    pub fn store(
        &mut self,
        pointer: &Pointer,
        layout: &Layout,
        value: &Column,
        lanes: &[usize],
    ) -> Result<()> {
        let memory = &mut self.memories[pointer.memory];
        for (index, &leaf) in layout.leaves().iter().enumerate() {
            let words = value.component(index);
            for &lane in lanes {
                memory.write(pointer, leaf, lane, words[lane])?;
            }
        }
        Ok(())
    }
}
