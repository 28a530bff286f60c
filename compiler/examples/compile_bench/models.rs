//! Graphs like those of well-known models, in the text form of IR 1, close to the output of
//! lowering.

use std::fmt::Write;

/// The number and shape of a tensor.
#[derive(Clone)]
struct Value {
    number: usize,
    shape: Vec<usize>,
}

/// A graph under construction.
struct Model {
    name: &'static str,
    nodes: String,
    count: usize,
}

impl Model {
    fn new(name: &'static str) -> Model {
        Model { name, nodes: String::new(), count: 0 }
    }

    fn text(&self, output: &Value) -> String {
        format!("graph {}(%0) -> (Y = %{})\n{}", self.name, output.number, self.nodes)
    }

    /// Adds a line `%n = operation : dtype[shape]  # origin`.
    fn typed(&mut self, operation: &str, dtype: &str, shape: &[usize], origin: &str) -> Value {
        // Writing to a string cannot fail.
        let _ = writeln!(self.nodes, "%{} = {operation} : {dtype}{shape:?}{origin}", self.count);
        self.count += 1;
        Value { number: self.count - 1, shape: shape.into() }
    }

    fn node(&mut self, operation: &str, shape: &[usize], origin: &str) -> Value {
        self.typed(operation, "f32", shape, &format!("  # {origin}"))
    }

    fn input(&mut self, name: &str, dtype: &str, shape: &[usize]) -> Value {
        self.typed(&format!("input {name}"), dtype, shape, "")
    }

    fn weight(&mut self, path: &str, shape: &[usize]) -> Value {
        self.typed(&format!("weight {path}"), "f32", shape, "")
    }

    fn constant(&mut self, value: f64) -> Value {
        self.typed(&format!("constant {value:?}"), "f32", &[], "")
    }

    fn binary(&mut self, op: &str, a: &Value, b: &Value, origin: &str) -> Value {
        let shape = if a.shape.len() >= b.shape.len() { &a.shape } else { &b.shape };
        let shape: Vec<usize> = shape.clone();
        self.node(&format!("{op} %{} %{}", a.number, b.number), &shape, origin)
    }

    fn unary(&mut self, op: &str, a: &Value, origin: &str) -> Value {
        self.node(&format!("{op} %{}", a.number), &a.shape, origin)
    }

    fn relu(&mut self, x: &Value, path: &str) -> Value {
        let origin = format!("Y in relu at {path}");
        let zero = self.constant(0.0);
        let below = format!("cmp_lt %{} %{}", x.number, zero.number);
        let below = self.typed(&below, "bool", &x.shape, &format!("  # {origin}"));
        self.node(
            &format!("select %{} %{} %{}", below.number, zero.number, x.number),
            &x.shape,
            &origin,
        )
    }

    /// Adds a convolution with `same` padding: NHWC data and HWIO weights.
    fn conv(&mut self, x: &Value, filters: usize, k: usize, stride: usize, path: &str) -> Value {
        let [n, h, w, c] = x.shape[..] else { unreachable!("images have four axes") };
        let (ho, wo, p) = (h.div_ceil(stride), w.div_ceil(stride), (k - 1) / 2);
        let kernel = self.weight(&format!("{path}.Kernel"), &[k, k, c, filters]);
        let at = |x: &str, d: &str| {
            if stride == 1 {
                format!("{x} + {d} - {p}")
            } else {
                format!("{stride}*{x} + {d} - {p}")
            }
        };
        let (y, z) = (at("y", "j"), at("z", "i"));
        let text = format!(
            "contract sum [n, y, z, o] (n: 0..{n}, y: 0..{ho}, z: 0..{wo}, o: 0..{filters}, j: 0..{k}, i: 0..{k}, c: 0..{c}) \
             {{ v0 = %{}[n, {y}, {z}, c]; v1 = %{}[j, i, c, o]; v2 = mul v0 v1; yield v2 }}",
            x.number, kernel.number
        );
        self.node(&text, &[n, ho, wo, filters], &format!("Y in Conv2D at {path}"))
    }

    fn depthwise(&mut self, x: &Value, k: usize, stride: usize, path: &str) -> Value {
        let [n, h, w, c] = x.shape[..] else { unreachable!("images have four axes") };
        let (ho, wo, p) = (h.div_ceil(stride), w.div_ceil(stride), (k - 1) / 2);
        let kernel = self.weight(&format!("{path}.Kernel"), &[k, k, c]);
        let text = format!(
            "contract sum [n, y, z, c] (n: 0..{n}, y: 0..{ho}, z: 0..{wo}, c: 0..{c}, j: 0..{k}, i: 0..{k}) \
             {{ v0 = %{}[n, {stride}*y + j - {p}, {stride}*z + i - {p}, c]; v1 = %{}[j, i, c]; v2 = mul v0 v1; yield v2 }}",
            x.number, kernel.number
        );
        self.node(&text, &[n, ho, wo, c], &format!("Y in DepthwiseConv2D at {path}"))
    }

    /// Adds batch normalisation for inference, with moving averages.
    fn batch_norm(&mut self, x: &Value, path: &str) -> Value {
        let c = [x.shape[x.shape.len() - 1]];
        let origin = |value: &str| format!("{value} in BatchNormalization at {path}");
        let [gamma, beta, mean, variance] = ["Gamma", "Beta", "MovingMean", "MovingVariance"]
            .map(|name| self.weight(&format!("{path}.{name}"), &c));
        let epsilon = self.constant(1e-3);
        let shifted = self.binary("add", &variance, &epsilon, &origin("Scale"));
        let inverse = self.unary("rsqrt", &shifted, &origin("Scale"));
        let scale = self.binary("mul", &gamma, &inverse, &origin("Scale"));
        let moved = self.binary("mul", &mean, &scale, &origin("Offset"));
        let offset = self.binary("sub", &beta, &moved, &origin("Offset"));
        let scaled = self.binary("mul", x, &scale, &origin("Y"));
        self.binary("add", &scaled, &offset, &origin("Y"))
    }

    fn conv_bn_relu(
        &mut self,
        x: &Value,
        filters: usize,
        k: usize,
        stride: usize,
        path: &str,
    ) -> Value {
        let x = self.conv(x, filters, k, stride, &format!("{path}.conv"));
        let x = self.batch_norm(&x, &format!("{path}.norm"));
        self.relu(&x, path)
    }

    fn max_pool(&mut self, x: &Value, path: &str) -> Value {
        let [n, h, w, c] = x.shape[..] else { unreachable!("images have four axes") };
        let text = format!(
            "contract max [n, y, z, c] (n: 0..{n}, y: 0..{}, z: 0..{}, c: 0..{c}, j: 0..3, i: 0..3) \
             {{ v0 = %{}[n, 2*y + j - 1, 2*z + i - 1, c]; yield v0 }}",
            h / 2,
            w / 2,
            x.number
        );
        self.node(&text, &[n, h / 2, w / 2, c], &format!("Y in MaxPooling2D at {path}"))
    }

    fn average(&mut self, x: &Value) -> Value {
        let [n, h, w, c] = x.shape[..] else { unreachable!("images have four axes") };
        let text = format!(
            "contract sum [n, c] (n: 0..{n}, c: 0..{c}, y: 0..{h}, z: 0..{w}) {{ v0 = %{}[n, y, z, c]; yield v0 }}",
            x.number
        );
        let origin = "Y in GlobalAveragePooling2D at pool";
        let sum = self.node(&text, &[n, c], origin);
        let count = self.constant((h * w) as f64);
        self.binary("div", &sum, &count, origin)
    }

    /// Adds a product of the last axis of `x` with a weight, plus a bias.
    fn dense(&mut self, x: &Value, units: usize, path: &str) -> Value {
        let (outer, k) = (&x.shape[..x.shape.len() - 1], x.shape[x.shape.len() - 1]);
        let kernel = self.weight(&format!("{path}.Kernel"), &[k, units]);
        let bias = self.weight(&format!("{path}.Bias"), &[units]);
        let place: Vec<String> = (0..outer.len()).map(|a| format!("a{a}")).collect();
        let ranges: Vec<String> =
            outer.iter().zip(&place).map(|(size, name)| format!("{name}: 0..{size}")).collect();
        let (place, ranges) = (place.join(", "), ranges.join(", "));
        let text = format!(
            "contract sum [{place}, u] ({ranges}, u: 0..{units}, k: 0..{k}) \
             {{ v0 = %{}[{place}, k]; v1 = %{}[k, u]; v2 = mul v0 v1; yield v2 }}",
            x.number, kernel.number
        );
        let shape = [outer, &[units]].concat();
        let origin = format!("Y in Dense at {path}");
        let product = self.node(&text, &shape, &origin);
        self.binary("add", &product, &bias, &origin)
    }

    /// Adds an aggregation over the last axis, which becomes 1.
    fn reduce(&mut self, aggregation: &str, x: &Value, origin: &str) -> Value {
        let (outer, last) = (&x.shape[..x.shape.len() - 1], x.shape[x.shape.len() - 1]);
        let place: Vec<String> = (0..outer.len()).map(|a| format!("a{a}")).collect();
        let ranges: Vec<String> =
            outer.iter().zip(&place).map(|(size, name)| format!("{name}: 0..{size}")).collect();
        let (place, ranges) = (place.join(", "), ranges.join(", "));
        let text = format!(
            "contract {aggregation} [{place}, 0] ({ranges}, k: 0..{last}) {{ v0 = %{}[{place}, k]; yield v0 }}",
            x.number
        );
        self.node(&text, &[outer, &[1]].concat(), origin)
    }

    fn softmax(&mut self, x: &Value, path: &str) -> Value {
        let origin = |value: &str| format!("{value} in softmax at {path}");
        let max = self.reduce("max", x, &origin("Max"));
        let shifted = self.binary("sub", x, &max, &origin("E"));
        let e = self.unary("exp", &shifted, &origin("E"));
        let sum = self.reduce("sum", &e, &origin("Sum"));
        self.binary("div", &e, &sum, &origin("Y"))
    }

    fn layer_norm(&mut self, x: &Value, path: &str) -> Value {
        let last = x.shape[x.shape.len() - 1];
        let origin = |value: &str| format!("{value} in LayerNormalization at {path}");
        let [gamma, beta] =
            ["Gamma", "Beta"].map(|name| self.weight(&format!("{path}.{name}"), &[last]));
        let (count, epsilon) = (self.constant(last as f64), self.constant(1e-6));
        let sum = self.reduce("sum", x, &origin("Mean"));
        let mean = self.binary("div", &sum, &count, &origin("Mean"));
        let centred = self.binary("sub", x, &mean, &origin("Centred"));
        let square = self.binary("mul", &centred, &centred, &origin("Variance"));
        let sum = self.reduce("sum", &square, &origin("Variance"));
        let variance = self.binary("div", &sum, &count, &origin("Variance"));
        let shifted = self.binary("add", &variance, &epsilon, &origin("Y"));
        let inverse = self.unary("rsqrt", &shifted, &origin("Y"));
        let normal = self.binary("mul", &centred, &inverse, &origin("Y"));
        let scaled = self.binary("mul", &normal, &gamma, &origin("Y"));
        self.binary("add", &scaled, &beta, &origin("Y"))
    }

    fn gelu(&mut self, x: &Value, path: &str) -> Value {
        let origin = format!("Y in gelu at {path}");
        let (half, root, one) =
            (self.constant(0.5), self.constant(0.5f64.sqrt()), self.constant(1.0));
        let scaled = self.binary("mul", x, &root, &origin);
        let erf = self.unary("erf", &scaled, &origin);
        let shifted = self.binary("add", &erf, &one, &origin);
        let halved = self.binary("mul", x, &half, &origin);
        self.binary("mul", &halved, &shifted, &origin)
    }

    /// Adds a projection to or from heads: an EinsumDense with a bias.
    fn heads(&mut self, x: &Value, heads: usize, size: usize, path: &str) -> Value {
        let [n, t, d] = x.shape[..] else { unreachable!("sequences have three axes") };
        let kernel = self.weight(&format!("{path}.Kernel"), &[d, heads, size]);
        let bias = self.weight(&format!("{path}.Bias"), &[heads, size]);
        let text = format!(
            "contract sum [n, t, h, e] (n: 0..{n}, t: 0..{t}, h: 0..{heads}, e: 0..{size}, d: 0..{d}) \
             {{ v0 = %{}[n, t, d]; v1 = %{}[d, h, e]; v2 = mul v0 v1; yield v2 }}",
            x.number, kernel.number
        );
        let origin = format!("Y in EinsumDense at {path}");
        let product = self.node(&text, &[n, t, heads, size], &origin);
        self.binary("add", &product, &bias, &origin)
    }

    fn attention(&mut self, x: &Value, heads: usize, path: &str) -> Value {
        let [n, t, d] = x.shape[..] else { unreachable!("sequences have three axes") };
        let size = d / heads;
        let [q, k, v] = ["query", "key", "value"]
            .map(|name| self.heads(x, heads, size, &format!("{path}.{name}")));
        let origin = |value: &str| format!("{value} in MultiHeadAttention at {path}");
        let ranges = format!("n: 0..{n}, h: 0..{heads}, q: 0..{t}");
        let text = format!(
            "contract sum [n, h, q, k] ({ranges}, k: 0..{t}, e: 0..{size}) \
             {{ v0 = %{}[n, q, h, e]; v1 = %{}[n, k, h, e]; v2 = mul v0 v1; yield v2 }}",
            q.number, k.number
        );
        let scores = self.node(&text, &[n, heads, t, t], &origin("Scores"));
        let scale = self.constant(1.0 / (size as f64).sqrt());
        let scores = self.binary("mul", &scores, &scale, &origin("Scores"));
        let weights = self.softmax(&scores, path);
        let text = format!(
            "contract sum [n, q, h, e] ({ranges}, e: 0..{size}, k: 0..{t}) \
             {{ v0 = %{}[n, h, q, k]; v1 = %{}[n, k, h, e]; v2 = mul v0 v1; yield v2 }}",
            weights.number, v.number
        );
        let context = self.node(&text, &[n, t, heads, size], &origin("Context"));
        let kernel = self.weight(&format!("{path}.output.Kernel"), &[heads, size, d]);
        let bias = self.weight(&format!("{path}.output.Bias"), &[d]);
        let text = format!(
            "contract sum [n, t, d] (n: 0..{n}, t: 0..{t}, d: 0..{d}, h: 0..{heads}, e: 0..{size}) \
             {{ v0 = %{}[n, t, h, e]; v1 = %{}[h, e, d]; v2 = mul v0 v1; yield v2 }}",
            context.number, kernel.number
        );
        let origin = format!("Y in EinsumDense at {path}.output");
        let product = self.node(&text, &[n, t, d], &origin);
        self.binary("add", &product, &bias, &origin)
    }

    fn integer(&mut self, value: u32) -> Value {
        self.typed(&format!("constant {value}"), "u32", &[], "")
    }

    fn integers(&mut self, op: &str, a: &Value, b: &Value) -> Value {
        let shape = if a.shape.len() >= b.shape.len() { a.shape.clone() } else { b.shape.clone() };
        let text = format!("{op} %{} %{}", a.number, b.number);
        self.typed(&text, "u32", &shape, "  # X in threefry")
    }

    /// Adds Threefry-2x32-20 of a key and a counter for each element, converted to floats in [0,
    /// 1).
    fn random_uniform(&mut self, seed: &Value, stream: u32, shape: &[usize]) -> Value {
        let elements: usize = shape.iter().product();
        let index = self.typed("index 0", "i32", &[elements], "  # Index in random_uniform");
        let mut x0 = self.typed(
            &format!("cast %{}", index.number),
            "u32",
            &[elements],
            "  # X in random_uniform",
        );
        let key = |model: &mut Model, word: usize| {
            let text =
                format!("contract assign [] () {{ v0 = %{}[{word}]; yield v0 }}", seed.number);
            model.typed(&text, "u32", &[], "  # Key in random_uniform")
        };
        let (k0, k1, stream) = (key(self, 0), key(self, 1), self.integer(stream));
        let parity = self.integer(0x1bd1_1bda);
        let mixed = self.integers("bit_xor", &k0, &k1);
        let keys = [k0.clone(), k1.clone(), self.integers("bit_xor", &mixed, &parity)];
        let start = self.integers("add", &stream, &k1);
        x0 = self.integers("add", &x0, &k0);
        let mut x1 = start;
        for round in 0..20 {
            let rotation = [13, 15, 26, 6, 17, 29, 16, 24][round % 8];
            x0 = self.integers("add", &x0, &x1);
            let (left, right) = (self.integer(rotation), self.integer(32 - rotation));
            let (high, low) =
                (self.integers("bit_left", &x1, &left), self.integers("bit_right", &x1, &right));
            let rotated = self.integers("bit_or", &high, &low);
            x1 = self.integers("bit_xor", &rotated, &x0);
            if round % 4 == 3 {
                let group = round / 4 + 1;
                x0 = self.integers("add", &x0, &keys[group % 3]);
                x1 = self.integers("add", &x1, &keys[(group + 1) % 3]);
                let number = self.integer(group as u32);
                x1 = self.integers("add", &x1, &number);
            }
        }
        let eight = self.integer(8);
        let bits = self.integers("bit_right", &x0, &eight);
        let origin = "Y in random_uniform";
        let float = self.node(&format!("cast %{}", bits.number), &[elements], origin);
        let unit = self.constant(2f64.powi(-24));
        let uniform = self.binary("mul", &float, &unit, origin);
        self.node(&format!("reshape %{}", uniform.number), shape, origin)
    }
}

pub fn mobile_net() -> String {
    let mut m = Model::new("mobile_net");
    let image = m.input("Image", "f32", &[1, 224, 224, 3]);
    let mut x = m.conv_bn_relu(&image, 32, 3, 2, "stem");
    let blocks = [
        (64, 1),
        (128, 2),
        (128, 1),
        (256, 2),
        (256, 1),
        (512, 2),
        (512, 1),
        (512, 1),
        (512, 1),
        (512, 1),
        (512, 1),
        (1024, 2),
        (1024, 1),
    ];
    for (number, (filters, stride)) in blocks.into_iter().enumerate() {
        let path = format!("block[{number}]");
        x = m.depthwise(&x, 3, stride, &format!("{path}.depthwise"));
        x = m.batch_norm(&x, &format!("{path}.norm"));
        x = m.relu(&x, &path);
        x = m.conv_bn_relu(&x, filters, 1, 1, &format!("{path}.pointwise"));
    }
    let x = m.average(&x);
    let x = m.dense(&x, 1000, "head");
    let y = m.softmax(&x, "head");
    m.text(&y)
}

pub fn res_net() -> String {
    let mut m = Model::new("res_net");
    let image = m.input("Image", "f32", &[1, 224, 224, 3]);
    let x = m.conv_bn_relu(&image, 64, 7, 2, "stem");
    let mut x = m.max_pool(&x, "stem");
    for (stage, (filters, blocks)) in
        [(64, 3), (128, 4), (256, 6), (512, 3)].into_iter().enumerate()
    {
        for block in 0..blocks {
            let path = format!("stage[{stage}][{block}]");
            let stride = if block == 0 && stage > 0 { 2 } else { 1 };
            let a = m.conv_bn_relu(&x, filters, 1, stride, &format!("{path}.a"));
            let b = m.conv_bn_relu(&a, filters, 3, 1, &format!("{path}.b"));
            let c = m.conv(&b, 4 * filters, 1, 1, &format!("{path}.c.conv"));
            let c = m.batch_norm(&c, &format!("{path}.c.norm"));
            let shortcut = match block {
                0 => {
                    let shortcut =
                        m.conv(&x, 4 * filters, 1, stride, &format!("{path}.shortcut.conv"));
                    m.batch_norm(&shortcut, &format!("{path}.shortcut.norm"))
                }
                _ => x.clone(),
            };
            let sum = m.binary("add", &c, &shortcut, &format!("Sum in Bottleneck at {path}"));
            x = m.relu(&sum, &path);
        }
    }
    let x = m.average(&x);
    let x = m.dense(&x, 1000, "head");
    let y = m.softmax(&x, "head");
    m.text(&y)
}

pub fn transformer(layers: usize) -> String {
    let mut m = Model::new("transformer");
    let (t, d) = (128, 768);
    let tokens = m.input("Tokens", "i32", &[1, t]);
    let table = m.weight("embedding.Embeddings", &[30522, d]);
    let text = format!(
        "contract assign [n, t, d] (n: 0..1, t: 0..{t}, d: 0..{d}) {{ @0 = %{}[n, t]; v0 = %{}[@0, d]; yield v0 }}",
        tokens.number, table.number
    );
    let embedded = m.node(&text, &[1, t, d], "Y in Embedding at embedding");
    let mut x = m.layer_norm(&embedded, "norm");
    for layer in 0..layers {
        let path = format!("encoder[{layer}]");
        let attended = m.attention(&x, 12, &format!("{path}.attention"));
        let sum = m.binary("add", &x, &attended, &format!("Sum in TransformerEncoder at {path}"));
        let a = m.layer_norm(&sum, &format!("{path}.norm1"));
        let hidden = m.dense(&a, 4 * d, &format!("{path}.ff1"));
        let hidden = m.gelu(&hidden, &format!("{path}.ff1"));
        let out = m.dense(&hidden, d, &format!("{path}.ff2"));
        let sum = m.binary("add", &a, &out, &format!("Sum in TransformerEncoder at {path}"));
        x = m.layer_norm(&sum, &format!("{path}.norm2"));
    }
    m.text(&x)
}

/// Returns a graph of the initial values of `weights` weights.
pub fn initial(weights: usize) -> String {
    let mut m = Model::new("initial");
    let seed = m.input("seed", "u32", &[2]);
    let sizes = [[768, 768], [768, 3072], [3072, 768], [64, 64]];
    let values: Vec<Value> =
        (0..weights).map(|n| m.random_uniform(&seed, n as u32, &sizes[n % sizes.len()])).collect();
    let outputs: Vec<String> =
        values.iter().enumerate().map(|(n, v)| format!("w{n} = %{}", v.number)).collect();
    format!("graph initial(%0) -> ({})\n{}", outputs.join(", "), m.nodes)
}

/// Returns a graph of the sum of squares of `weights` weights, as regularizers build it.
pub fn penalty(weights: usize) -> String {
    let mut m = Model::new("penalty");
    let factor = m.input("Factor", "f32", &[]);
    let mut sum = factor.clone();
    for number in 0..weights {
        let weight = m.weight(&format!("w[{number}]"), &[64, 64]);
        let square = m.binary("mul", &weight, &weight, "Square in l2");
        let text = format!(
            "contract sum [] (i: 0..64, j: 0..64) {{ v0 = %{}[i, j]; yield v0 }}",
            square.number
        );
        let total = m.node(&text, &[], "Y in l2");
        let scaled = m.binary("mul", &total, &factor, "Y in l2");
        sum = m.binary("add", &sum, &scaled, "Sum in penalty");
    }
    m.text(&sum)
}

/// Returns a graph that concatenates `parts` features as the library does: each is written over the
/// previous result.
pub fn concatenation(parts: usize) -> String {
    let mut m = Model::new("concatenation");
    let x = m.input("X", "f32", &[16, 8]);
    let zero = m.constant(0.0);
    let mut all = m.node(
        &format!(
            "contract assign [i, c] (i: 0..16, c: 0..{}) {{ v0 = %{}[]; yield v0 }}",
            8 * parts,
            zero.number
        ),
        &[16, 8 * parts],
        "All in concatenate",
    );
    for number in 0..parts {
        let weight = m.weight(&format!("w[{number}]"), &[8]);
        let part = m.binary("mul", &x, &weight, "Part in f");
        let text = format!(
            "contract assign [i, c + {}] (i: 0..16, c: 0..8) default %{} {{ v0 = %{}[i, c]; yield v0 }}",
            8 * number,
            all.number,
            part.number
        );
        all = m.node(&text, &[16, 8 * parts], "All in concatenate");
    }
    m.text(&all)
}
