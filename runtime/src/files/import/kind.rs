//! Recognises files that are no Tile programs by their first bytes.

/// The first bytes of a kind of file, what it is, and what to do with it.
type Kind = (&'static [u8], &'static str, &'static str);

const AS_WEIGHTS: &str = "give it to a program, with `--weights`";
const AS_INPUT: &str = "give it to a program, with `--input X=FILE`";
const AS_PICTURE: &str = "give it to a program, with `--input Image=FILE`, or with `tilec predict`";
const FROM_TORCH: &str = "write the layers in Tile, and give them the file, with `--weights`";
const FROM_OLD_TORCH: &str = "write the layers in Tile, and save the weights again, with `torch.save(model.state_dict(), \"model.pt\")`, for `--weights`";
const FROM_KERAS: &str =
    "convert it, with `tilec import FILE -o model.tile`, or give it to a program, with `--weights`";
const AS_TEXT: &str = "save it as UTF-8";

const KINDS: &[Kind] = &[
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, as Keras writes them", AS_WEIGHTS),
    (b"\x93NUMPY", "an array of NumPy", AS_INPUT),
    (b"\x1f\x8b", "compressed with gzip", "unpack it first, with `gunzip`"),
    (b"\x89PNG", "a PNG picture", AS_PICTURE),
    (b"\xff\xd8\xff", "a JPEG picture", AS_PICTURE),
    (
        b"GIF8",
        "a GIF picture",
        "save it as .png, and give it to a program, with `--input Image=FILE`",
    ),
    (b"\x80\x02", "a pickle of Python, as old files of PyTorch", FROM_OLD_TORCH),
    (b"\x80\x04", "a pickle of Python", FROM_OLD_TORCH),
    (b"\x08", "an ONNX model", "give it a name that ends in .onnx"),
    (b"\xff\xfe", "text in UTF-16", AS_TEXT),
    (b"\xfe\xff", "text in UTF-16", AS_TEXT),
    (b"\x7fELF", "an executable file", "name a file that ends in .tile"),
    (b"%PDF", "a PDF document", "name a file that ends in .tile"),
];

/// The kinds of zip archives, by the name of a file in them.
const ARCHIVES: &[Kind] = &[
    (b"data.pkl", "a file of PyTorch", FROM_TORCH),
    (b"metadata.json", "a model of Keras", FROM_KERAS),
    (b"config.json", "a model of Keras", FROM_KERAS),
    (b".npy", "an archive of NumPy arrays", AS_WEIGHTS),
    (b"", "a zip archive", "unpack it first"),
];

/// Describes a file that is no text of a program, with advice. `None` if it may be one.
pub(super) fn other_kind(bytes: &[u8]) -> Option<String> {
    let describe = |(_, what, advice): &Kind| format!("it is {what}, not a Tile program: {advice}");
    if bytes.starts_with(b"PK\x03\x04") {
        let has =
            |name: &[u8]| name.is_empty() || bytes.windows(name.len()).any(|part| part == name);
        return ARCHIVES.iter().find(|(name, ..)| has(name)).map(describe);
    }
    if let (Some(length), Some(b'{')) = (bytes.first_chunk(), bytes.get(8))
        && u64::from_le_bytes(*length) < 1 << 32
    {
        return Some(describe(&(b"", "a file of weights", AS_WEIGHTS)));
    }
    KINDS.iter().find(|(start, ..)| bytes.starts_with(start)).map(describe)
}
