"""Layers that prepare numbers and sound."""

from cases import Family, integers, normal, np
from lookup import integer_lookup

family = Family("preprocessing", {"IntegerLookup": integer_lookup})
layer = family.layer

bins = "[-0.5, 0.0, 1.0]"
layer("discretization", f"Discretization({bins})", X=normal(3, 4))
layer("discretization_at_boundaries", f"Discretization({bins})", X=lambda _: np.array([-0.5, 0, 1, -1, 2], np.float32))
layer("discretization_one_hot", f"Discretization({bins}, output_mode = one_hot)", X=normal(5, 1))
layer("discretization_one_hots", f"Discretization({bins}, output_mode = one_hot)", X=normal(3, 4))
layer("discretization_multi_hot", f"Discretization({bins}, output_mode = multi_hot)", X=normal(3, 4))
layer("discretization_count", f"Discretization({bins}, output_mode = count)", X=normal(3, 4))

tokens = integers(12, 4, 5)
words = "vocabulary = [3, 5, 11, 8, 2]"
for name, expression in [
    ("", words),
    ("_mask", f"mask_token = 0, {words}"),
    ("_no_oov", f"num_oov_indices = 0, {words}"),
    ("_oovs", f"num_oov_indices = 3, {words}"),
    ("_oovs_mask", f"num_oov_indices = 2, mask_token = 0, {words}"),
    ("_special", "mask_token = 0, vocabulary = [0, -1, 4, 7, 9]"),
    ("_one_hot", f"{words}, output_mode = one_hot"),
    ("_multi_hot", f"mask_token = 3, {words}, output_mode = multi_hot"),
    ("_count", f"num_oov_indices = 2, {words}, output_mode = count"),
    ("_padded", f"max_tokens = 9, {words}, output_mode = count, pad_to_max_tokens = true"),
    ("_tf_idf", f"{words}, output_mode = tf_idf, idf_weights = [0.5, 0.25, 1.5, 2.0, 0.1]"),
    ("_invert", f"{words}, invert = true"),
    ("_invert_mask", f"mask_token = 0, oov_token = 77, {words}, invert = true"),
]:
    layer(f"integer_lookup{name}", f"IntegerLookup({expression})", X=tokens)

layer("stft_log", "STFTSpectrogram(frame_length = 16)", X=normal(2, 50, 3))
for mode in ["magnitude", "psd", "real", "imag", "angle", "stft"]:
    layer(f"stft_{mode}", f"STFTSpectrogram({mode}, frame_length = 12, frame_step = 5)", X=normal(2, 40, 2))
layer("stft_expanded", "STFTSpectrogram(frame_length = 8, expand_dims = true)", X=normal(2, 30, 3))
layer(
    "stft_channels_first",
    "STFTSpectrogram(psd, frame_length = 8, data_format = channels_first)",
    X=normal(2, 3, 30),
)
layer(
    "stft_channels_first_expanded",
    "STFTSpectrogram(magnitude, frame_length = 8, expand_dims = true, data_format = channels_first)",
    X=normal(2, 3, 30),
)
layer(
    "stft_same",
    "STFTSpectrogram(magnitude, 8, frame_step = 3, fft_length = 16, padding = same)",
    X=normal(2, 31, 1),
)
layer("mel", "MelSpectrogram(32, 8, num_mel_bins = 5, sampling_rate = 1000)", X=normal(2, 100))
layer("mel_of_one", "MelSpectrogram(32, 8, num_mel_bins = 5, sampling_rate = 1000)", X=normal(100))
layer("mel_power", "MelSpectrogram(32, 10, 20, num_mel_bins = 6, sampling_rate = 2000, power_to_db = false)", X=normal(2, 90))
layer(
    "mel_options",
    "MelSpectrogram(64, 16, window = hamming, sampling_rate = 1000, num_mel_bins = 4, min_freq = 50.0, max_freq = 400.0, top_db = 3.0, mag_exp = 1.0, ref_power = 2.0)",
    X=normal(3, 200),
)
