"""Attention. What Keras calls attention_mask is `Mask` (true: may attend), the padding masks are `QueryMask`, `ValueMask`, `KeyMask`."""

from cases import Family, flags, normal

family = Family("attention")
layer = family.layer

x, query, value, key = normal(2, 5, 8), normal(2, 3, 8), normal(2, 6, 7), normal(2, 6, 9)
self_attention = "Y = layer(X, X)"
cross = dict(Query=query, Value=value)

layer("multi_head_attention", "MultiHeadAttention(2, 4)", self_attention, X=x)
layer("multi_head_attention_cross", "MultiHeadAttention(num_heads = 2, key_dim = 3)", **cross)
layer("multi_head_attention_key", "MultiHeadAttention(2, 3, value_dim = 5, dropout = 0.1)", **cross, Key=key)
layer(
    "multi_head_attention_key_by_name",
    "MultiHeadAttention(3, 2)",
    "Y = layer(Query, Value, Key = Key)",
    **cross,
    Key=key,
)
layer("multi_head_attention_one_head", "MultiHeadAttention(1, 5, use_bias = false)", self_attention, X=x)
layer("multi_head_attention_output_shape", "MultiHeadAttention(2, 3, output_shape = 11)", **cross)
layer("multi_head_attention_dropout", "MultiHeadAttention(2, 3, dropout = 0.5)", **cross)
layer("multi_head_attention_causal", "MultiHeadAttention(2, 4)", "Y = layer(X, X, use_causal_mask = true)", X=x)
layer(
    "multi_head_attention_causal_cross",
    "MultiHeadAttention(2, 4)",
    "Y = layer(Query, Value, use_causal_mask = true)",
    **cross,
)
layer(
    "multi_head_attention_mask",
    "MultiHeadAttention(2, 3)",
    "Y = layer(Query, Value, Mask = Mask)",
    **cross,
    Mask=flags(2, 3, 6),
)
layer(
    "multi_head_attention_mask_of_all",
    "MultiHeadAttention(2, 3)",
    "Y = layer(Query, Value, Mask = Mask)",
    **cross,
    Mask=flags(1, 3, 6),
)
layer(
    "multi_head_attention_value_mask",
    "MultiHeadAttention(2, 3)",
    "Y = layer(Query, Value, ValueMask = ValueMask)",
    **cross,
    ValueMask=flags(2, 6),
)
layer(
    "multi_head_attention_all_masks",
    "MultiHeadAttention(2, 3)",
    "Y = layer(Query, Value, Key = Key, ValueMask = ValueMask, KeyMask = KeyMask, Mask = Mask, use_causal_mask = true)",
    **cross,
    Key=key,
    ValueMask=flags(2, 6),
    KeyMask=flags(2, 6),
    Mask=flags(2, 3, 6),
)
layer(
    "multi_head_attention_scores",
    "MultiHeadAttention(2, 3)",
    "Y, Scores = layer(Query, Value, Mask = Mask, return_attention_scores = true)",
    **cross,
    Mask=flags(2, 3, 6),
)
layer("multi_head_attention_sliding_window", "MultiHeadAttention(2, 4, sliding_window = 2)", self_attention, X=x)
layer("multi_head_attention_gate", "MultiHeadAttention(2, 4, use_gate = true)", self_attention, X=x)
layer("multi_head_attention_long", "MultiHeadAttention(3, 7)", self_attention, X=normal(1, 37, 12))
layer("multi_head_attention_all_axes", "MultiHeadAttention(2, 3)", self_attention, X=normal(2, 3, 4, 6))
layer(
    "multi_head_attention_axes", "MultiHeadAttention(2, 3, attention_axes = [2])", self_attention, X=normal(2, 3, 4, 6)
)

for kind in ["GroupQueryAttention", "GroupedQueryAttention"]:
    name = "group_query_attention" if kind == "GroupQueryAttention" else "grouped_query_attention"
    layer(name, f"{kind}(3, 4, 2)", "Y = layer(X, X)", X=x)
name = "group_query_attention"
layer(f"{name}_cross", "GroupQueryAttention(head_dim = 3, num_query_heads = 4, num_key_value_heads = 1)", **cross)
layer(f"{name}_key", "GroupQueryAttention(3, 6, 3, use_bias = false)", **cross, Key=key)
layer(f"{name}_causal", "GroupQueryAttention(3, 4, 4)", "Y = layer(X, X, use_causal_mask = true)", X=x)
layer(
    f"{name}_mask", "GroupQueryAttention(3, 4, 2)", "Y = layer(Query, Value, Mask = Mask)", **cross, Mask=flags(2, 3, 6)
)
layer(
    f"{name}_all_masks",
    "GroupQueryAttention(3, 4, 2)",
    "Y = layer(Query, Value, ValueMask = ValueMask, Mask = Mask, use_causal_mask = true)",
    **cross,
    ValueMask=flags(2, 6),
    Mask=flags(2, 3, 6),
)

same = dict(Query=normal(2, 3, 5, scale=0.7), Value=normal(2, 6, 5, scale=0.7))
for kind, name, plain in [
    ("Attention", "attention", ""),
    ("AdditiveAttention", "additive_attention", "use_scale = false"),
]:
    layer(name, f"{kind}()", **same)
    layer(f"{name}_key", f"{kind}()", Query=same["Query"], Value=value, Key=same["Value"])
    layer(f"{name}_scale", f"{kind}({plain or 'use_scale = true'})", **same)
    layer(f"{name}_causal", f"{kind}()", "Y = layer(Query, Value, use_causal_mask = true)", **same)
    layer(
        f"{name}_value_mask",
        f"{kind}()",
        "Y = layer(Query, Value, ValueMask = ValueMask)",
        **same,
        ValueMask=flags(2, 6),
    )
    layer(
        f"{name}_all_masks",
        f"{kind}()",
        "Y, Scores = layer(Query, Value, QueryMask = QueryMask, ValueMask = ValueMask, "
        "use_causal_mask = true, return_attention_scores = true)",
        **same,
        QueryMask=flags(2, 3),
        ValueMask=flags(2, 6),
    )
layer("attention_concat", "Attention(score_mode = concat)", **same)
layer("attention_concat_scale", "Attention(use_scale = true, score_mode = concat)", **same)
