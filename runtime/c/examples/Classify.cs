// Classifies a picture with a pack or a Tile file:
//
//     Classify MODEL PICTURE.f32 PROBABILITIES.f32 [DEVICE]
//
// The files are those of classify.c.

using System;
using System.IO;
using System.Runtime.InteropServices;
using System.Text;

static class Tile
{
    public const uint F32 = 11;

    [DllImport("tile")]
    static extern IntPtr tile_error_message();
    [DllImport("tile")]
    public static extern int tile_model_load(
        [MarshalAs(UnmanagedType.LPUTF8Str)] string path, out IntPtr model);
    [DllImport("tile")]
    public static extern void tile_model_free(IntPtr model);
    [DllImport("tile")]
    public static extern int tile_session_create(
        IntPtr model, [MarshalAs(UnmanagedType.LPUTF8Str)] string device, out IntPtr session);
    [DllImport("tile")]
    public static extern int tile_session_input_info(
        IntPtr session, UIntPtr number, out IntPtr name, out uint dtype, out IntPtr shape,
        out UIntPtr rank);
    [DllImport("tile")]
    public static extern int tile_session_output_info(
        IntPtr session, UIntPtr number, out IntPtr name, out uint dtype, out IntPtr shape,
        out UIntPtr rank);
    [DllImport("tile")]
    public static extern int tile_session_set_input(
        IntPtr session, IntPtr name, uint dtype, IntPtr shape, UIntPtr rank, float[] data);
    [DllImport("tile")]
    public static extern int tile_session_run(IntPtr session);
    [DllImport("tile")]
    public static extern int tile_session_output(
        IntPtr session, IntPtr name, out uint dtype, out IntPtr shape, out UIntPtr rank,
        out IntPtr data);
    [DllImport("tile")]
    public static extern void tile_session_free(IntPtr session);

    // Throws the error of a call that failed.
    public static void Check(int status)
    {
        if (status != 0)
        {
            throw new InvalidOperationException(Text(tile_error_message()));
        }
    }

    // Returns the sizes of a tensor, outermost first.
    public static int[] Sizes(IntPtr shape, UIntPtr rank)
    {
        var sizes = new int[(int)rank];
        for (int axis = 0; axis < sizes.Length; axis++)
        {
            sizes[axis] = checked((int)Marshal.ReadIntPtr(shape, axis * IntPtr.Size));
        }
        return sizes;
    }

    static string Text(IntPtr text)
    {
        int length = 0;
        while (Marshal.ReadByte(text, length) != 0)
        {
            length++;
        }
        var bytes = new byte[length];
        Marshal.Copy(text, bytes, 0, length);
        return Encoding.UTF8.GetString(bytes);
    }
}

static class Classify
{
    static int Main(string[] arguments)
    {
        if (arguments.Length < 3)
        {
            Console.Error.WriteLine("usage: Classify MODEL PICTURE.f32 PROBABILITIES.f32 [DEVICE]");
            return 2;
        }
        try
        {
            Run(arguments[0], arguments[1], arguments[2], arguments.Length > 3 ? arguments[3] : "cpu");
            return 0;
        }
        catch (Exception error)
        {
            Console.Error.WriteLine("error: " + error.Message);
            return 1;
        }
    }

    static void Run(string path, string picture, string probabilities, string device)
    {
        Tile.Check(Tile.tile_model_load(path, out IntPtr model));
        int created = Tile.tile_session_create(model, device, out IntPtr session);
        Tile.tile_model_free(model);
        Tile.Check(created);
        try
        {
            var pixels = Floats(File.ReadAllBytes(picture));
            Tile.Check(Tile.tile_session_input_info(
                session, UIntPtr.Zero, out IntPtr input, out _, out IntPtr shape, out UIntPtr rank));
            int elements = 1;
            foreach (int size in Tile.Sizes(shape, rank))
            {
                elements *= size;
            }
            if (pixels.Length != elements)
            {
                throw new InvalidDataException($"{picture} does not have {elements} floats");
            }
            Tile.Check(Tile.tile_session_set_input(session, input, Tile.F32, shape, rank, pixels));
            Tile.Check(Tile.tile_session_run(session));

            Tile.Check(Tile.tile_session_output_info(
                session, UIntPtr.Zero, out IntPtr output, out _, out _, out _));
            Tile.Check(Tile.tile_session_output(
                session, output, out _, out shape, out rank, out IntPtr data));
            var sizes = Tile.Sizes(shape, rank);
            var scores = new float[sizes[sizes.Length - 1]];
            Marshal.Copy(data, scores, 0, scores.Length);
            int best = 0;
            for (int number = 1; number < scores.Length; number++)
            {
                best = scores[number] > scores[best] ? number : best;
            }
            Console.WriteLine($"{best} {scores[best]:F4}");
            var bytes = new byte[4 * scores.Length];
            Buffer.BlockCopy(scores, 0, bytes, 0, bytes.Length);
            File.WriteAllBytes(probabilities, bytes);
        }
        finally
        {
            Tile.tile_session_free(session);
        }
    }

    static float[] Floats(byte[] bytes)
    {
        var floats = new float[bytes.Length / 4];
        Buffer.BlockCopy(bytes, 0, floats, 0, 4 * floats.Length);
        return floats;
    }
}
