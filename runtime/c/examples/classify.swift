// Classifies a picture with a pack or a Tile file:
//
//     classify MODEL PICTURE.f32 PROBABILITIES.f32 [DEVICE]
//
// The files are those of classify.c.

import CTile
import Foundation

func fail(_ message: String, code: Int32) -> Never {
    FileHandle.standardError.write(Data("error: \(message)\n".utf8))
    exit(code)
}

// Prints the error and ends the program if a call failed.
func check(_ status: tile_status) {
    if status != TILE_OK {
        fail(String(cString: tile_error_message()), code: Int32(status.rawValue))
    }
}

let arguments = CommandLine.arguments
if arguments.count < 4 {
    fail("usage: classify MODEL PICTURE.f32 PROBABILITIES.f32 [DEVICE]", code: 2)
}
var model: OpaquePointer?
check(tile_model_load(arguments[1], &model))
var session: OpaquePointer?
check(tile_session_create(model, arguments.count > 4 ? arguments[4] : "cpu", &session))
tile_model_free(model)

var name: UnsafePointer<CChar>?
var shape: UnsafePointer<Int>?
var rank = 0
check(tile_session_input_info(session, 0, &name, nil, &shape, &rank))
let elements = (0..<rank).reduce(1) { $0 * shape![$1] }
guard let picture = FileManager.default.contents(atPath: arguments[2]),
    picture.count == elements * MemoryLayout<Float>.size
else {
    fail("\(arguments[2]) does not have \(elements) floats", code: 1)
}
picture.withUnsafeBytes { bytes in
    check(tile_session_set_input(
        session, name, tile_dtype(TILE_F32), shape, rank, bytes.baseAddress))
}
check(tile_session_run(session))

var data: UnsafeRawPointer?
check(tile_session_output_info(session, 0, &name, nil, nil, nil))
check(tile_session_output(session, name, nil, &shape, &rank, &data))
let classes = shape![rank - 1]
let scores = UnsafeBufferPointer(
    start: data!.assumingMemoryBound(to: Float.self), count: classes)
let best = scores.indices.max { scores[$0] < scores[$1] }!
print(best, String(format: "%.4f", scores[best]))
let written = FileManager.default.createFile(atPath: arguments[3], contents: Data(buffer: scores))
if !written {
    fail("cannot write \(arguments[3])", code: 3)
}
tile_session_free(session)
