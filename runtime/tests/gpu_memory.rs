//! Sessions on memory of an app on its own GPU: buffers, parts of them and textures; commands in
//! the app's encoder; several sessions and threads; what does not suit; a lost device.
#![cfg(feature = "wgpu")]

mod adapter;

use std::thread;

use tile_runtime::{Device, Error, Model, Session, Tensor};
use wgpu::{
    Buffer, BufferDescriptor, BufferUsages, CommandEncoderDescriptor, Extent3d, MapMode, PollType,
    Queue, Texture, TextureDescriptor, TextureDimension, TextureFormat, TextureUsages,
};

/// An app with its device.
struct App {
    device: wgpu::Device,
    queue: Queue,
    tile: Device,
}

/// Opens the first adapter. Returns `None` if there is none.
fn open() -> Option<App> {
    let (device, queue, tile) = adapter::open(|_| ())?;
    Some(App { device, queue, tile })
}

const ALL: BufferUsages =
    BufferUsages::STORAGE.union(BufferUsages::COPY_SRC).union(BufferUsages::COPY_DST);

impl App {
    fn buffer(&self, bytes: u64, usage: BufferUsages) -> Buffer {
        self.device.create_buffer(&BufferDescriptor {
            label: None,
            size: bytes,
            usage,
            mapped_at_creation: false,
        })
    }

    fn filled(&self, values: &[f32]) -> Buffer {
        let buffer = self.buffer(4 * values.len() as u64, ALL);
        self.queue.write_buffer(&buffer, 0, bytemuck::cast_slice(values));
        buffer
    }

    fn encoder(&self) -> wgpu::CommandEncoder {
        self.device.create_command_encoder(&CommandEncoderDescriptor::default())
    }

    /// Submits a run of a session.
    fn run(&self, session: &mut Session) {
        let mut encoder = self.encoder();
        session.encode(&mut encoder).unwrap();
        self.queue.submit([encoder.finish()]);
    }

    /// Returns `count` numbers of a buffer from byte `offset` on.
    fn read(&self, buffer: &Buffer, offset: u64, count: usize) -> Vec<f32> {
        let target = self.buffer(4 * count as u64, BufferUsages::MAP_READ | BufferUsages::COPY_DST);
        let mut encoder = self.encoder();
        encoder.copy_buffer_to_buffer(buffer, offset, &target, 0, target.size());
        self.queue.submit([encoder.finish()]);
        target.map_async(MapMode::Read, .., |result| result.unwrap());
        self.device.poll(PollType::wait_indefinitely()).unwrap();
        let view = target.get_mapped_range(..).unwrap();
        bytemuck::cast_slice(&view).to_vec()
    }

    fn texture(
        &self,
        format: TextureFormat,
        width: u32,
        height: u32,
        usage: TextureUsages,
    ) -> Texture {
        self.device.create_texture(&TextureDescriptor {
            label: None,
            size: Extent3d { width, height, depth_or_array_layers: 1 },
            mip_level_count: 1,
            sample_count: 1,
            dimension: TextureDimension::D2,
            format,
            usage,
            view_formats: &[],
        })
    }

    /// Returns the number of submissions so far, by one more.
    fn submissions(&self) -> u64 {
        let text = format!("{:?}", self.queue.submit([]));
        text.chars().filter(char::is_ascii_digit).collect::<String>().parse().unwrap()
    }
}

fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 31) % 101) as f32 / 16.0 - 3.0).collect()
}

const PROGRAM: &str =
    "function f(X[N, M], B[M]) -> (Y, S) { Y = X * 2 + B; S[i: N] = +(Y[i, j]); }";

fn session(device: &Device, [n, m]: [usize; 2]) -> Session {
    Model::compile(PROGRAM).unwrap().on(device).input("X", [n, m]).build().unwrap()
}

/// Returns both outputs on the cpu device.
fn expected(shape: [usize; 2], x: &[f32], b: &[f32]) -> [Vec<f32>; 2] {
    let x = Tensor::from_f32(shape, x).unwrap();
    let b = Tensor::from_f32([shape[1]], b).unwrap();
    let outputs = session(&Device::cpu(), shape).run([("X", x), ("B", b)]).unwrap();
    ["Y", "S"].map(|name| bytemuck::pod_collect_to_vec(outputs.get(name).unwrap().bytes()))
}

#[test]
fn buffers_and_parts_of_buffers() {
    let Some(app) = open() else { return };
    for shape in [[1, 1], [3, 7], [64, 33]] {
        let [n, m] = shape;
        let mut session = session(&app.tile, shape);
        let (x, b) = (numbers(n * m, 1), numbers(m, 2));
        let expected = expected(shape, &x, &b);
        let offset = u64::from(app.device.limits().min_storage_buffer_offset_alignment.max(256));
        let whole = app.buffer(offset * 2 + 4 * (n * m) as u64, ALL);
        app.queue.write_buffer(&whole, offset, bytemuck::cast_slice(&x));
        let y = app.buffer(offset + 4 * (n * m) as u64, ALL);
        session.bind("X", whole.slice(offset..)).unwrap();
        session.bind("Y", y.slice(offset..)).unwrap();
        session.set("B", &Tensor::from_f32([m], &b).unwrap()).unwrap();
        app.run(&mut session);
        assert_eq!(app.read(&y, offset, n * m), expected[0]);
        // Other outputs, and those that are bound, can be read as always.
        assert_eq!(session.view("S").unwrap().elements(), Some(&expected[1][..]));
        session.execute().unwrap();
        assert_eq!(
            session.read().unwrap().get("Y").unwrap().bytes(),
            bytemuck::cast_slice::<f32, u8>(&expected[0])
        );
        // Another buffer, and then the session's own again.
        let (other, other_y) = (numbers(n * m, 5), app.buffer(4 * (n * m) as u64, ALL));
        let buffer = app.filled(&other);
        session.bind("X", &buffer).unwrap();
        session.bind("Y", &other_y).unwrap();
        app.run(&mut session);
        let doubled = self::expected(shape, &other, &b);
        assert_eq!(app.read(&other_y, 0, n * m), doubled[0]);
        assert_eq!(app.read(&y, offset, n * m), expected[0]);
        session.unbind("X").unwrap();
        session.unbind("Y").unwrap();
        let error = session.execute().unwrap_err().to_string();
        assert!(error.starts_with("input `X` is missing"), "{error}");
        let outputs = session.run([("X", Tensor::from_f32(shape, &x).unwrap())]).unwrap();
        assert_eq!(
            outputs.get("Y").unwrap().bytes(),
            bytemuck::cast_slice::<f32, u8>(&expected[0])
        );
        assert_eq!(app.read(&other_y, 0, n * m), doubled[0]);
    }
}

#[test]
fn encode_adds_no_submission() {
    let Some(app) = open() else { return };
    let mut session = session(&app.tile, [64, 33]);
    session.bind("X", &app.filled(&numbers(64 * 33, 1))).unwrap();
    session.bind("B", &app.filled(&numbers(33, 1))).unwrap();
    session.bind("Y", &app.buffer(4 * 64 * 33, ALL)).unwrap();
    let before = app.submissions();
    let mut encoder = app.encoder();
    for _ in 0..10 {
        session.encode(&mut encoder).unwrap();
    }
    assert_eq!(app.submissions(), before + 1);
    app.queue.submit([encoder.finish()]);
    assert_eq!(app.submissions(), before + 3);
}

#[test]
fn weights_are_prepared_in_the_encoder() {
    let Some(app) = open() else { return };
    let program =
        "model m(X[N, 8]) -> (Y) { Y = X |> Dense(8) |> BatchNormalization() |> Dense(3); }";
    let model = Model::compile(program).unwrap();
    let build = |device: &Device| model.on(device).input("X", [4, 8]).build().unwrap();
    let x = numbers(32, 3);
    let (mut session, mut reference) = (build(&app.tile), build(&Device::reference()));
    session.bind("X", &app.filled(&x)).unwrap();
    let y = app.buffer(48, ALL);
    session.bind("Y", &y).unwrap();
    for seed in 0..3 {
        let mut encoder = app.encoder();
        match seed {
            0 => assert!(matches!(session.encode(&mut encoder), Err(Error::MissingWeight { .. }))),
            // These commands are dropped.
            _ => session.encode(&mut encoder).unwrap(),
        }
        drop(encoder);
        let mut fresh = build(&Device::reference());
        fresh.initialise(seed).unwrap();
        let paths: Vec<String> = fresh.weights().map(|(path, _)| path.to_owned()).collect();
        for path in paths {
            session.set(&path, &fresh.get(&path).unwrap()).unwrap();
            reference.set(&path, &fresh.get(&path).unwrap()).unwrap();
        }
        let expected = reference.run([("X", Tensor::from_f32([4, 8], &x).unwrap())]).unwrap();
        for _ in 0..3 {
            drop(session.encode(&mut app.encoder()));
            app.run(&mut session);
            for (found, expected) in
                app.read(&y, 0, 12).iter().zip(expected.get("Y").unwrap().to_f64s())
            {
                assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} {expected}");
            }
        }
    }
}

#[test]
fn pictures_in_textures() {
    let Some(app) = open() else { return };
    let usage = TextureUsages::COPY_SRC | TextureUsages::COPY_DST;
    let model = Model::compile("function f(X[H, W, C]) -> (Y) { Y = 1 - X; }").unwrap();
    let (width, height) = (64, 5);
    for (format, channels) in [(TextureFormat::R32Float, 1), (TextureFormat::Rgba32Float, 4)] {
        let mut session =
            model.on(&app.tile).input("X", [height, width, channels]).build().unwrap();
        let (x, y) = (app.texture(format, 64, 5, usage), app.texture(format, 64, 5, usage));
        let values = numbers(width * height * channels, 4);
        let layout = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some((width * channels * 4) as u32),
            rows_per_image: None,
        };
        app.queue.write_texture(x.as_image_copy(), bytemuck::cast_slice(&values), layout, x.size());
        session.bind("X", &x).unwrap();
        session.bind("Y", &y).unwrap();
        app.run(&mut session);
        let copy = app.buffer(4 * values.len() as u64, ALL);
        let mut encoder = app.encoder();
        let info = wgpu::TexelCopyBufferInfo { buffer: &copy, layout };
        encoder.copy_texture_to_buffer(y.as_image_copy(), info, y.size());
        app.queue.submit([encoder.finish()]);
        let expected: Vec<f32> = values.iter().map(|x| 1.0 - x).collect();
        assert_eq!(app.read(&copy, 0, values.len()), expected);
    }
}

#[test]
fn what_does_not_suit_is_refused() {
    let Some(app) = open() else { return };
    let mut session = session(&app.tile, [4, 16]);
    let fits = app.buffer(4 * 64, ALL);
    let error = |result: Result<(), Error>| result.unwrap_err().to_string();
    let small = app.buffer(252, ALL);
    assert_eq!(
        error(session.bind("X", &small)),
        "cannot bind `X`: expected 256 bytes for f32[4, 16] with elements stored as f32, found 252"
    );
    let large = app.buffer(1024, ALL);
    let text = error(session.bind("X", large.slice(4..)));
    assert!(
        text.starts_with("cannot bind `X`: expected an offset that is a multiple of "),
        "{text}"
    );
    let copied = app.buffer(256, BufferUsages::COPY_DST);
    assert_eq!(
        error(session.bind("Y", &copied)),
        "cannot bind `Y`: expected a buffer with usage STORAGE, found BufferUsages(COPY_DST)"
    );
    assert!(error(session.bind("Z", &fits)).contains("`Z`"));
    session.bind("X", &fits).unwrap();
    assert_eq!(
        error(session.bind("Y", &fits)),
        "cannot bind `Y`: its buffer is also bound to `X`, and one of the two is written"
    );
    let x = Tensor::from_f32([4, 16], &[0.0; 64]).unwrap();
    assert_eq!(
        error(session.set("X", &x)),
        "cannot bind `X`: it has memory of the app; unbind it before it is given a value"
    );
    let picture = app.texture(TextureFormat::R32Float, 8, 8, TextureUsages::COPY_SRC);
    let text = error(session.bind("X", &picture));
    assert_eq!(
        text,
        "cannot bind `X`: expected a texture of the size of f32[4, 16], found 8 x 8 texels of 1 elements"
    );
    let mut on_cpu = self::session(&Device::cpu(), [4, 16]);
    assert_eq!(
        error(on_cpu.bind("X", &fits)),
        "cannot bind `X`: the session's device is not a GPU of wgpu"
    );
    // An output that cannot be read says so, and can be encoded.
    let hidden = app.buffer(256, BufferUsages::STORAGE);
    session.bind("Y", &hidden).unwrap();
    session.set("B", &Tensor::from_f32([16], &[0.0; 16]).unwrap()).unwrap();
    app.run(&mut session);
    assert!(error(session.read().map(drop)).contains("COPY_SRC"));
}

#[test]
fn several_sessions_from_several_threads() {
    let Some(app) = open() else { return };
    thread::scope(|scope| {
        for number in 1..5 {
            let app = &app;
            scope.spawn(move || {
                let shape = [number * 3, 10 + number];
                let (count, mut session) = (shape[0] * shape[1], session(&app.tile, shape));
                let (x, b) = (numbers(count, number), numbers(shape[1], 2));
                let y = app.buffer(4 * count as u64, ALL);
                session.bind("X", &app.filled(&x)).unwrap();
                session.bind("B", &app.filled(&b)).unwrap();
                session.bind("Y", &y).unwrap();
                let [expected, _] = expected(shape, &x, &b);
                for _ in 0..20 {
                    app.run(&mut session);
                    assert_eq!(app.read(&y, 0, count), expected);
                }
            });
        }
    });
}

#[test]
fn an_app_rebuilds_after_its_device_is_lost() {
    let Some(app) = open() else { return };
    let prepare = |app: &App| {
        let mut session = session(&app.tile, [4, 16]);
        session.bind("X", &app.filled(&numbers(64, 1))).unwrap();
        session.bind("B", &app.filled(&numbers(16, 1))).unwrap();
        session
    };
    let mut session = prepare(&app);
    app.run(&mut session);
    app.device.destroy();
    let mut encoder = app.encoder();
    for _ in 0..2 {
        assert!(matches!(session.encode(&mut encoder), Err(Error::DeviceLost { .. })));
    }
    assert!(matches!(session.bind("X", &app.buffer(256, ALL)), Err(Error::DeviceLost { .. })));
    let app = open().unwrap();
    let mut session = prepare(&app);
    app.run(&mut session);
    let [expected, _] = expected([4, 16], &numbers(64, 1), &numbers(16, 1));
    assert_eq!(
        session.read().unwrap().get("Y").unwrap().bytes(),
        bytemuck::cast_slice::<f32, u8>(&expected)
    );
}
