// SPDX-License-Identifier: Apache-2.0
// Ops whose operands or attributes make no sense.
#include "tests/import/hostile_make.h"

namespace fusec::importer {

namespace {

const std::string kX = "float[2, 3] x", kImage = "float[1, 3, 8, 8] x", kConv = kImage + ", float[4, 3, 3, 3] w",
                  kBlocks = "float[1, 4, 2, 2] x";

void add_moves(HostileList& list) {
  add_graphs(list,
             {
                 {"broadcast_mismatch", "float[4] x, float[5] z", "y = Add(x, z)", "broadcast"},
                 {"transpose_twice", kX, "y = Transpose <perm = [0, 0]> (x)", "perm"},
                 {"transpose_outside", kX, "y = Transpose <perm = [0, 9]> (x)", "perm"},
                 {"transpose_int64_min", kX, "y = Transpose <perm = [" + kInt64Min + ", 0]> (x)", "perm"},
                 {"transpose_short", kX, "y = Transpose <perm = [0]> (x)", "perm"},
                 {"flatten_axis", kX, "y = Flatten <axis = -9> (x)", "axis -9"},
                 {"flatten_axis_int64_min", kX, "y = Flatten <axis = " + kInt64Min + "> (x)", "axis"},
                 {"concat_axis", kX, "y = Concat <axis = 2> (x, x)", "axis 2"},
                 {"concat_axis_missing", kX, "y = Concat(x, x)", "axis"},
                 {"concat_ranks", kX + ", float[2] z", "y = Concat <axis = 0> (x, z)", "agree"},
                 {"concat_extents", kX + ", float[2, 4] z", "y = Concat <axis = 0> (x, z)", "agree"},
                 {"reshape_two_unknowns", kX, ints("-1, -1", "y = Reshape(x, c)"), "two -1"},
                 {"reshape_minus_2", kX, ints("-2, 3", "y = Reshape(x, c)"), "-2"},
                 {"reshape_overflow", kX, ints(kInt64Max + ", " + kInt64Max, "y = Reshape(x, c)"), "overflow"},
                 {"reshape_other_count", kX, ints("7", "y = Reshape(x, c)"), "7"},
                 {"reshape_does_not_divide", kX, ints("4, -1", "y = Reshape(x, c)"), "divide"},
                 {"reshape_divides_by_0", kX, ints("0, -1", "y = Reshape <allowzero = 1> (x, c)"), "0"},
                 {"reshape_copies_what_is_not_there", kX, ints("2, 3, 0", "y = Reshape(x, c)"), "copies an extent"},
                 {"reshape_by_data", kX + ", int64[2] c", "y = Reshape(x, c)", "data"},
                 {"squeeze_not_1", kX, ints("1", "y = Squeeze(x, c)"), "not 1"},
                 {"squeeze_outside", kX, ints("5", "y = Squeeze(x, c)"), "axis 5"},
                 {"unsqueeze_twice", kX, ints("0, 0", "y = Unsqueeze(x, c)"), "twice"},
                 {"unsqueeze_outside", kX, ints(kInt64Min, "y = Unsqueeze(x, c)"), "axis"},
                 {"expand_mismatch", kX, ints("5, 5", "y = Expand(x, c)"), "broadcast"},
                 {"expand_negative", kX, ints("-1, 2, 3", "y = Expand(x, c)"), "-1"},
                 {"tile_short", kX, ints("2", "y = Tile(x, c)"), "one entry per axis"},
                 {"tile_negative", kX, ints("-2, 1", "y = Tile(x, c)"), "negative"},
                 {"depth_to_space_huge", kBlocks, "y = DepthToSpace <blocksize = " + kInt64Max + "> (x)", "blocksize"},
                 {"depth_to_space_0", kBlocks, "y = DepthToSpace <blocksize = 0> (x)", "blocksize"},
                 {"depth_to_space_mode", kBlocks, "y = DepthToSpace <blocksize = 2, mode = \"x\"> (x)", "mode"},
                 {"space_to_depth_negative", kBlocks, "y = SpaceToDepth <blocksize = -2> (x)", "blocksize"},
             });
}

void add_slices(HostileList& list) {
  const auto slice = [](const std::string& start, const std::string& end, const std::string& axis,
                        const std::string& step) {
    return "s = Constant <value_ints = [" + start + "]> () e = Constant <value_ints = [" + end +
           "]> () a = Constant <value_ints = [" + axis + "]> () t = Constant <value_ints = [" + step +
           "]> () y = Slice(x, s, e, a, t)";
  };
  add_graphs(
      list,
      {
          {"gather_index", kX, ints("0, 99", "y = Gather <axis = 1> (x, c)"), "index 99"},
          {"gather_index_int64_min", kX, ints(kInt64Min + ", 0", "y = Gather <axis = 1> (x, c)"), "index"},
          {"gather_axis", kX, ints("0", "y = Gather <axis = -3> (x, c)"), "axis -3"},
          {"gather_float", kX + ", float[2] z", "y = Gather(x, z)", "f32"},
          {"gather_elements_rank", kX, ints("0", "y = GatherElements(x, c)"), "rank 2"},
          {"gather_nd_depth", kX, "i = Constant <value = int64[1, 3] {0, 0, 0}> () y = GatherND(x, i)", "3"},
          {"gather_nd_batch", kX, "i = Constant <value = int64[1, 1] {0}> () y = GatherND <batch_dims = 9> (x, i)",
           "batch_dims"},
          {"slice_step_0", kX, slice("0", "9", "0", "0"), "step"},
          {"slice_step_int64_min", kX, slice("0", "9", "0", kInt64Min), "step"},
          {"slice_axis_twice", kX, slice("0, 0", "1, 1", "1, 1", "1, 1"), "twice"},
          {"slice_axis_outside", kX, slice("0", "1", kInt64Max, "1"), "axis"},
          {"slice_lengths", kX, slice("0, 0", "1", "0", "1"), "equal lengths"},
          {"split_sum", kX, ints("9", "y = Split(x, c)"), "add up"},
          {"split_overflow", kX, ints(kInt64Max + ", " + kInt64Max, "z, y = Split(x, c)"), "overflow"},
          {"split_negative", kX, ints("-1", "y = Split(x, c)"), "negative"},
          {"split_count", kX, ints("1, 1", "y = Split(x, c)"), "number of outputs"},
          {"split_axis", kX, "y = Split <axis = 2> (x)", "axis 2"},
          {"pad_short", kX, ints("1, 1", "y = Pad(x, c)"), "two entries per axis"},
          {"pad_takes_too_much", kX, ints("-9, 0, -9, 0", "y = Pad(x, c)"), "more than there is"},
          {"pad_int64_min", kX, ints(kInt64Min + ", 0, 0, 0", "y = Pad(x, c)"), "overflow"},
          {"pad_mode", kX, ints("1, 0, 0, 0", "y = Pad <mode = \"sideways\"> (x, c)"), "mode"},
          {"pad_reflect_too_far", kX, ints("9, 0, 0, 0", "y = Pad <mode = \"reflect\"> (x, c)"), "reflect"},
          {"one_hot_axis", "int64[4] x, float[2] v", "c = Constant <value_int = 3> () y = OneHot <axis = 7> (x, c, v)",
           "axis 7"},
          {"one_hot_negative", "int64[4] x, float[2] v", "c = Constant <value_int = -3> () y = OneHot(x, c, v)", "-3"},
          {"eye_like_rank", "float[3] x", "y = EyeLike(x)", "two axes"},
          {"trilu_rank", "float[3] x", "y = Trilu(x)", "two axes"},
      });
}

void add_layers(HostileList& list) {
  const auto conv = [](const std::string& attributes) { return "y = Conv <" + attributes + "> (x, w)"; };
  const auto pool = [](const std::string& attributes) { return "y = MaxPool <" + attributes + "> (x)"; };
  const auto resize = [](const std::string& mode) {
    return "s = Constant <value_floats = [1.0, 1.0, 2.0, 2.0]> () y = Resize <coordinate_transformation_mode = \"" +
           mode + "\"> (x, , s)";
  };
  add_graphs(
      list,
      {
          {"conv_kernel_mismatch", kConv, conv("kernel_shape = [9, 9]"), "kernel_shape"},
          {"conv_filter_rank", kImage + ", float[4] w", "y = Conv(x, w)", "axes"},
          {"conv_filter_rank_0", kImage + ", float w", "y = Conv(x, w)", "axes"},
          {"conv_operand_rank", kX + ", float[4, 3] w", "y = Conv(x, w)", "axes"},
          {"conv_channels", kImage + ", float[4, 5, 3, 3] w", "y = Conv(x, w)", "5"},
          {"conv_filter_empty", kImage + ", float[4, 3, 0, 3] w", "y = Conv(x, w)", "kernel_shape"},
          {"conv_filter_too_large", kImage + ", float[4, 3, 99, 3] w", "y = Conv(x, w)", "fit"},
          {"conv_stride_0", kConv, conv("strides = [0, 0]"), "strides"},
          {"conv_strides_short", kConv, conv("strides = [1]"), "strides"},
          {"conv_dilation_huge", kConv, conv("dilations = [" + kInt64Max + ", 1]"), "dilations"},
          {"conv_pad_negative", kConv, conv("pads = [-1, 0, 0, 0]"), "pads"},
          {"conv_pads_huge", kConv, conv("pads = [2147483647, 2147483647, 2147483647, 2147483647]"), "tensor_bytes"},
          {"conv_group_0", kConv, conv("group = 0"), "group"},
          {"conv_group_negative", kConv, conv("group = -1"), "group"},
          {"conv_group_huge", kConv, conv("group = " + kInt64Max), "group"},
          {"conv_same_padding_overflow", "float[0, 3, " + kInt64Max + ", 8] x, float[4, 3, 3, 3] w",
           conv("auto_pad = \"SAME_UPPER\", strides = [2, 2]"), "overflow"},
          {"conv_auto_pad", kConv, conv("auto_pad = \"DIAGONAL\""), "auto_pad"},
          {"pool_kernel_negative", kImage, pool("kernel_shape = [-1, 2]"), "kernel_shape"},
          {"pool_kernel_missing", kImage, "y = AveragePool(x)", "kernel_shape"},
          {"pool_kernel_rank", kImage, pool("kernel_shape = [2, 2, 2, 2]"), "kernel_shape"},
          {"pool_kernel_too_large", kImage, pool("kernel_shape = [99, 2]"), "fit"},
          {"pool_of_vector", "float[3] x", pool("kernel_shape = [2]"), "axes"},
          {"lrn_size_huge", kBlocks, "y = LRN <size = " + kInt64Max + "> (x)", "size"},
          {"lrn_size_negative", kBlocks, "y = LRN <size = -1> (x)", "size"},
          {"gemm_rank", "float[2, 3, 4] x", "y = Gemm(x, x)", "two axes"},
          {"gemm_c", "float[2, 3] x, float[3, 4] w, float[9] z", "y = Gemm(x, w, z)", "broadcast"},
          {"matmul_scalar", "float x", "y = MatMul(x, x)", "matmul"},
          {"matmul_extents", kX, "y = MatMul(x, x)", "matmul"},
          {"einsum_scalar", "float x", "y = Einsum <equation = \"ij->\"> (x)", "Einsum"},
          {"einsum_line_break", kX, "y = Einsum <equation = \"i\nj\"> (x)", "'i\\x0aj'"},
          {"rnn_rank", "float x", "y = RNN <hidden_size = 4> (x, x, x)", "RNN"},
          {"lstm_hidden_huge", kX, "y = LSTM <hidden_size = " + kInt64Max + "> (x, x, x)", "LSTM"},
          {"resize_huge", kImage, "s = Constant <value_floats = [1e30, 1e30, 1e30, 1e30]> () y = Resize(x, , s)",
           "Resize"},
          {"resize_mode_line_break", kImage, resize("\n"), "mode '\\x0a'"},
          {"resize_mode_long", kImage, resize(std::string(1'000'000, 'x')), "xxx..."},
          {"non_max_suppression", kImage, "y = NonMaxSuppression(x, x)", "NonMaxSuppression"},
          {"batch_norm_extents", kImage + ", float[5] s", "y = BatchNormalization(x, s, s, s, s)", "5"},
          {"batch_norm_of_scalar", "float x, float[1] s", "y = BatchNormalization(x, s, s, s, s)", "channel axis"},
          {"layer_norm_axis", kX + ", float[3] s", "y = LayerNormalization <axis = 9> (x, s)", "axis 9"},
          {"instance_norm_scale_rank", kImage + ", float[3] s", "y = InstanceNormalization(x, x, s)", "one axis"},
      });
}

void add_attributes(HostileList& list) {
  add_graphs(list,
             {
                 {"axis_outside", kX, "y = Softmax <axis = 7> (x)", "axis 7"},
                 {"axis_int64_min", kX, "y = Softmax <axis = " + kInt64Min + "> (x)", "axis"},
                 {"axis_of_scalar", "float x", "y = ReduceMax <axes = [0]> (x)", "axis 0"},
                 {"axes_twice", kX, "y = ReduceMax <axes = [0, -2]> (x)", "twice"},
                 {"arg_max_axis", kX, "y = ArgMax <axis = " + kInt64Max + "> (x)", "axis"},
                 {"cumsum_axis", kX, "c = Constant <value_int = 3> () y = CumSum(x, c)", "axis 3"},
                 {"cumsum_axes", kX, ints("0, 1", "y = CumSum(x, c)"), "scalar"},
                 {"attribute_of_wrong_type", kX, "y = Softmax <axis = \"one\"> (x)", "axis"},
                 {"attribute_of_list_type", kX, "y = Softmax <axis = [1, 2]> (x)", "axis"},
                 {"attribute_unknown", kX, "y = Relu <alpha = 1> (x)", "alpha"},
                 {"attribute_twice", kX, "y = Softmax <axis = 0, axis = 1> (x)", "axis"},
                 {"operand_missing", kX, "y = Add(x)", "Add"},
                 {"operands_of_two_types", kX + ", int64[2, 3] z", "y = Add(x, z)", "i64"},
                 {"operand_of_wrong_type", "bool[2] x", "y = Exp(x)", "bool"},
                 {"cast_to_0", kX, "y = Cast <to = 0> (x)", "element type 0"},
                 {"cast_to_string", kX, "y = Cast <to = 8> (x)", "STRING"},
                 {"cast_to_2_32_and_1", kX, "y = Cast <to = 4294967297> (x)", "element type 4294967297"},
                 {"clip_bounds", kX + ", float[2] z", "y = Clip(x, z)", "element counts"},
                 {"quantize_type", kX + ", float s, float z", "y = QuantizeLinear(x, s, z)", "f32"},
                 {"quantize_scale_extents", kX + ", float[9] s", "y = QuantizeLinear(x, s)", "9"},
                 {"dequantize_axis", "uint8[2, 3] x, float[3] s", "y = DequantizeLinear <axis = 5> (x, s)", "axis 5"},
                 {"constant_empty", kX, "y = Constant()", "no value"},
                 {"constant_string", kX, "y = Constant <value_string = \"x\"> ()", "value_string"},
                 {"strings", "string[4] x", "y = StringNormalizer(x)", "STRING", "input 'x'"},
                 {"sequence", kX, "y = SequenceConstruct(x)", "SequenceConstruct"},
                 {"optional", kX, "y = Optional(x)", "Optional"},
                 {"unique", kX, "y = Unique(x)", "Unique"},
                 {"random", kX, "y = RandomNormalLike(x)", "RandomNormalLike"},
                 {"training_dropout", "float[4] x",
                  "r = Constant <value_float = 0.5> () t = Constant <value_int = 1> () u = Cast <to = 9> (t) y = "
                  "Dropout(x, r, u)",
                  "training"},
             });
}

}  // namespace

void add_hostile_ops(HostileList& list) {
  add_moves(list);
  add_slices(list);
  add_layers(list);
  add_attributes(list);
}

}  // namespace fusec::importer
