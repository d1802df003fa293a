#pragma once

#include <memory>

#include "model/config.h"
#include "model/encoder_step.h"
#include "model/layers/vector_layer.h"
#include "tensorized/linear/linear.h"

namespace comera {

// What a student's encoder learns from its teacher's answers (Hinton et al., 2015; Sanh et al., 2019; Jiao et
// al., 2020). With the vectors u of the student's and v of the teacher's sequences, their hidden states h and
// g, and a projection P, which is the identity where both are equally wide, the loss of a micro-batch is
// `targets` times
//   vectors mean_s (1 - cos(P u_s, v_s)) + similarities mean_{s, s'} (cos(u_s, u_s') - cos(v_s, v_s'))²
//     + hidden mean_{l, t} |P h_lt - g_lt|² / width + relations Σ mean_{t, head} KL
// where the means are over its sequences, pairs of them, tokens, and layers: with all_layers the outputs of
// all blocks l, each beside the teacher's as deep (the k-th of n beside the k N / n-th of N, rounded down),
// otherwise the encoders' alone. The sum is over the queries, keys and values of the last block (Wang et al.,
// 2021, arXiv 2012.15828): X of the student and Y of the teacher are divided into as many heads, whatever
// their widths, and KL is of a row of softmax(Y Yᵀ / √d') from that of softmax(X Xᵀ / √d), within a sequence,
// for heads of d and d' columns. So the loss over the targets is the mean of the micro-batches by their
// targets.
class TeacherLosses {
 public:
  // layer: behind the pooling of the student's vectors, or null; it must outlive this.
  TeacherLosses(ParameterStore& store, const EncoderConfig& config, const VectorLayer* layer = nullptr);

  // hidden (T, hidden): the encoder's output. relations: queries, keys and values of its last block, empty if
  // its attention has been removed; then they have no loss. Adds the loss to step.results, and the targets if
  // no head counts them. With gradient it adds to dhidden, shaped as hidden, and to the projection's
  // gradients, and writes drelations, shaped as relations, if these are learned.
  using Relations = std::array<Tensor, 3>;
  void run(const EncoderStep& step, const Tensor& hidden, const Relations& relations, bool gradient,
           const Tensor& dhidden, const Relations& drelations) const;
  bool of_relations() const { return distillation_.relations > 0; }
  // The part of the loss of a block's output (T, hidden) that is not the encoder's; none without all_layers.
  // Adds to dhidden.
  void add_layer(const EncoderStep& step, std::size_t block, const Tensor& hidden, bool gradient,
                 const Tensor& dhidden) const;
  bool of_all_layers() const { return distillation_.all_layers && distillation_.hidden > 0; }
  bool projects_all_layers() const { return of_all_layers() && projection_ != nullptr; }

 private:
  // One call of run().
  struct Pass;
  void add_hidden(Pass& pass, const Tensor& hidden, const Tensor& taught, const Tensor& dhidden) const;
  void add_relations(Pass& pass, const Relations& relations, const Relations& drelations) const;
  void add_vectors(Pass& pass, const Tensor& hidden, const Tensor& dhidden) const;
  // Of the student's vectors (S, hidden), in the type of activations and in that of parameters, and the
  // teacher's unit vectors; they add to du, in the type of parameters.
  void add_cosines(Pass& pass, const Tensor& narrow, const Tensor& u, const Tensor& taught,
                   const Tensor& du) const;
  void add_similarities(Pass& pass, const Tensor& u, const Tensor& taught, const Tensor& du) const;
  Tensor targets(const PackedBatch& batch) const;

  DistillationConfig distillation_;
  HeadKind head_;
  std::int64_t layers_;  // whose hidden states are compared
  std::int64_t relation_heads_;
  Pooling pooling_;
  const VectorLayer* layer_;
  std::unique_ptr<Linear> projection_;
};

}  // namespace comera
