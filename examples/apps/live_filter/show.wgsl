// Shows gray values, which are in a buffer row by row, on the whole target.

@group(0) @binding(0) var<storage, read> gray: array<f32>;

struct Corner {
    @builtin(position) position: vec4<f32>,
    // Columns and rows of the picture, from 0 to 1.
    @location(0) place: vec2<f32>,
}

// One triangle that covers the target.
@vertex
fn corner(@builtin(vertex_index) number: u32) -> Corner {
    let place = 2.0 * vec2<f32>(f32(number & 1u), f32(number >> 1u));
    return Corner(vec4<f32>(2.0 * place.x - 1.0, 1.0 - 2.0 * place.y, 0.0, 1.0), place);
}

@fragment
fn pixel(corner: Corner) -> @location(0) vec4<f32> {
    let size = u32(sqrt(f32(arrayLength(&gray))));
    let at = min(vec2<u32>(corner.place * f32(size)), vec2<u32>(size - 1u));
    return vec4<f32>(vec3<f32>(gray[at.y * size + at.x]), 1.0);
}
