#include "document/kinds/families.hpp"

#include <iterator>
#include <utility>

namespace orrery::document {
namespace {

/// A family: what every model has, and its own members.
Variant family(const char* name, const char* doc, std::vector<Member> own) {
  std::vector<Member> members = {
      member("name", text(), "the publisher's name").otherwise(""),
      member("family", choice({{name}}), "how the layers are built").required(),
  };
  std::move(own.begin(), own.end(), std::back_inserter(members));
  return {name, document_members("model", true, with_sources(std::move(members))), doc};
}

Member hidden() { return member("hidden", integer(1, 1 << 20), "width of the residual stream").required(); }
Member ffn() { return member("ffn_hidden", integer(1, 1 << 22), "width of the MLP").required(); }
Member heads() { return member("heads", integer(1, 1 << 16), "query heads").required(); }
Member head_dim() { return member("head_dim", integer(1, 1 << 16), "size of a head").otherwise_text("hidden / heads"); }
Member vocab() { return member("vocab", integer(1, 1 << 30), "tokens of the vocabulary").required(); }
Member gated() { return member("gated_mlp", boolean(), "two parallel up-projections, one gating the other").otherwise(false); }
Member activation() { return member("activation", choice({{"silu"}, {"gelu"}, {"relu"}, {"relu2"}}), "of the MLP; relu2 is the square of relu").otherwise("gelu"); }
Member layers(const char* doc) { return member("layers", integer(1, 1 << 16), doc).required(); }
Member classes() { return member("classes", integer(1, 1 << 24), "classes of the labels").required(); }
Member image() { return member("image_size", integer(1, 1 << 14), "height and width of the image, pixels").required(); }
Member patch() { return member("patch_size", integer(1, 1 << 12), "height and width of a patch").required(); }
Member channels(std::int64_t n, const char* doc) { return member("channels", integer(1, 1 << 16), doc).otherwise(n); }

}  // namespace

std::vector<Variant> other_families() {
  return {
      family("encoder", "A bidirectional transformer that predicts masked tokens (BERT)", {
          layers("encoder layers"), hidden(), ffn(), gated(), activation(), heads(), head_dim(), vocab(),
          member("norm_place", choice({{"post"}, {"pre"}}), "post: each residual sum is normalised (BERT); pre: each branch's input").otherwise("post"),
          member("max_positions", integer(1, 1 << 30), "rows of the learned position table; a sequence has at most as many tokens").required(),
          member("token_types", integer(0, 1 << 10), "rows of the segment table").otherwise(2),
          member("pooler", boolean(), "a dense layer over the first token").otherwise(true),
          member("masked_lm", boolean(), "the head that predicts masked tokens; its matrix is the embedding's, transposed").otherwise(true),
          member("next_sentence", boolean(), "the head that tells whether two sentences follow each other; needs the pooler").otherwise(true),
          member("masked_positions", integer(1, 1 << 30), "positions of a sequence that the masked-token head sees").otherwise_text("all"),
      }),
      family("encoder_decoder", "An encoder, and a decoder that attends to it (T5); training.sequence_length is the encoder's, and tokens are its tokens", {
          member("encoder_layers", integer(1, 1 << 16), "encoder layers").required(),
          member("decoder_layers", integer(1, 1 << 16), "decoder layers").required(),
          hidden(), ffn(), gated(), activation(), heads(), head_dim(), vocab(),
          member("tied_embeddings", boolean(), "the head is the embedding, transposed").otherwise(true),
          member("target_length", integer(1, 1 << 30), "tokens of a sample that the decoder sees").required(),
          member("relative_buckets", integer(0, 1 << 16), "distances that the relative position bias of each stack tells apart; 0: none").otherwise(32),
      }),
      family("vision_transformer", "A transformer over the patches of an image; training.sequence_length is the patches, plus one for the class token", {
          image(), patch(), channels(3, "colours of the image"), layers("encoder layers"), hidden(), ffn(), gated(), activation(), heads(), head_dim(), classes(),
          member("pool", choice({{"class_token"}, {"mean"}}), "what the classifier reads: a token of its own, or the mean over the patches").otherwise("class_token"),
          member("patch_bias", boolean(), "the patch projection has a bias").otherwise(true),
          member("input_norm", boolean(), "a norm before the first block (CLIP)").otherwise(false),
      }),
      family("diffusion_transformer", "A transformer that predicts the noise of an image's latent, conditioned by time step and class (DiT); training.sequence_length is the patches", {
          member("latent_size", integer(1, 1 << 12), "height and width of the latent").required(),
          member("latent_channels", integer(1, 1 << 12), "channels of the latent").otherwise(4),
          patch(), layers("blocks"), hidden(), ffn(), gated(), activation(), heads(), head_dim(), classes(),
          member("frequencies", integer(2, 1 << 16), "sines and cosines of the time step").otherwise(256),
          member("learn_sigma", boolean(), "the variance is predicted beside the noise").otherwise(true),
      }),
      family("convolutional", "A residual network of convolutions (ResNet); an image is one token: training.sequence_length is 1", {
          image(), channels(3, "colours of the image"),
          member("block", choice({{"bottleneck"}, {"basic"}}), "bottleneck: 1 x 1, 3 x 3 and 1 x 1, out four times as wide; basic: two of 3 x 3").otherwise("bottleneck"),
          member("stem_width", integer(1, 1 << 14), "channels after the first convolution").otherwise(64),
          member("stages", array(object({
              member("blocks", integer(1, 1 << 12), "blocks of the stage").required(),
              member("width", integer(1, 1 << 14), "channels of the 3 x 3 convolutions").required(),
              member("stride", integer(1, 16), "of the first block").otherwise(1),
          }), 1, 64), "from the first to the last").required(),
          classes(),
      }),
      family("mlp", "Linear layers with an activation between them", {
          member("widths", array(integer(1, 1 << 24), 2, 1 << 12), "features in, of every hidden layer, and out").required(),
          member("bias", boolean(), "linear layers have a bias").otherwise(true),
          activation(),
          member("loss", choice({{"cross_entropy"}, {"mse"}}), "over the last layer's features").otherwise("cross_entropy"),
      }),
      family("recommendation", "Look-up tables, MLPs and the interaction between them (DLRM); a sample is one token: training.sequence_length is 1", {
          member("dense_features", integer(1, 1 << 20), "numbers of a sample").required(),
          member("embedding_dim", integer(1, 1 << 16), "length of a table's row").required(),
          member("bottom", array(integer(1, 1 << 20), 1, 1 << 8), "widths of the layers over the dense features; the last is embedding_dim").required(),
          member("top", array(integer(1, 1 << 20), 1, 1 << 8), "widths of the layers over the interaction; the last is the click").required(),
          member("tables", array(integer(1, std::int64_t{1} << 34), 1, 1 << 12), "rows of each look-up table").required(),
          member("lookups", array(integer(1, 1 << 16), 1, 1 << 12), "rows that a sample looks up in each table, and sums").otherwise_text("one of each"),
          member("cross_layers", integer(0, 1 << 10), "layers of a low-rank cross network; 0: dot products of all pairs").otherwise(0),
          member("cross_rank", integer(1, 1 << 16), "rank of a cross layer"),
      }),
      family("state_space", "State-space mixers, alone (Mamba-2) or with attention and MLP layers between (hybrids)", {
          layers("layers of every kind"), hidden(), vocab(),
          member("tied_embeddings", boolean(), "the head is the embedding, transposed").required(),
          member("pattern", text(), "a letter a layer: M (a mixer), * (attention), - (an MLP)").otherwise_text("all M"),
          member("state", integer(1, 1 << 14), "size of a mixer's state").otherwise(128),
          member("ssm_head_dim", integer(1, 1 << 14), "size of a mixer's head").otherwise(64),
          member("ssm_heads", integer(1, 1 << 16), "heads of a mixer").otherwise_text("2 x hidden / ssm_head_dim"),
          member("groups", integer(1, 1 << 12), "groups of heads that share B and C").otherwise(1),
          member("convolution", integer(1, 64), "taps of the causal convolution").otherwise(4),
          member("chunk", integer(1, 1 << 16), "tokens of a chunk of the scan").otherwise(256),
          member("heads", integer(1, 1 << 16), "query heads of the attention layers"),
          member("kv_heads", integer(1, 1 << 16), "key and value heads").otherwise_text("heads"),
          head_dim(),
          member("ffn_hidden", integer(1, 1 << 22), "width of the MLP layers"),
          gated(), activation(),
      }),
  };
}

Variant multimodal_family(std::vector<Member> decoder) {
  static const Type vision = object({
      image(), patch(), channels(3, "colours of the image"), member("frames", integer(1, 64), "frames of a video that a patch spans; an image is repeated").otherwise(1),
      layers("layers that are stored"), member("idle_layers", integer(0, 1 << 16), "of them the last, which do not run: features are taken before them").otherwise(0),
      hidden(), ffn(), gated(), activation(), heads(),
      member("class_token", boolean(), "a token of its own, which the decoder does not get").otherwise(false),
      member("patch_bias", boolean(), "the patch projection has a bias").otherwise(false),
      member("position", choice({{"learned"}, {"rotary"}}), "a table, or rotations in every block").otherwise("learned"),
      member("norm", choice({{"layer"}, {"rms"}}), "normalisation").otherwise("layer"),
      member("input_norm", boolean(), "a norm before the first block").otherwise(false),
      member("final_norm", boolean(), "a norm after the last block").otherwise(false),
      member("linear_bias", boolean(), "the blocks' linear layers have biases").otherwise(true),
  });
  static const Type projector = object({
      member("merge", integer(1, 64), "edge of the square of patches that becomes one token").otherwise(1),
      member("norm", boolean(), "a norm over each patch before").otherwise(false),
      member("widths", array(integer(1, 1 << 20), 1, 64), "of its linear layers, a GELU between them; the last is the decoder's").required(),
      member("bias", boolean(), "they have biases").otherwise(true),
  });
  std::erase_if(decoder, [](const Member& m) { return m.name == "moe" || m.name == "mtp_layers" || m.name == "sources" || m.name == "notes" || m.name == "unconfirmed" || m.name == "schema" || m.name == "extends" || m.name == "name" || m.name == "family"; });
  decoder.push_back(member("vision", vision, "the encoder of images").required());
  decoder.push_back(member("projector", projector, "from the encoder's features to the decoder's tokens").required());
  decoder.push_back(member("images", integer(1, 1 << 12), "images of a sequence").otherwise(1));
  decoder.push_back(member("frozen", array(choice({{"vision"}, {"projector"}, {"decoder"}}), 1, 3).distinct(), "parts that are not trained"));
  return family("multimodal", "An encoder of images, a projector and a decoder (LLaVA); the decoder's members are those of a transformer, so that the model may extend one", std::move(decoder));
}

}  // namespace orrery::document
