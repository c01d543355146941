//! What each layer of a shape does.

use qrun_models::{
    LayerPlan,
    layer::{
        self, DeltaPlan, ExpertPlan, FeedForwardPlan, HeadNorm, KvSource, LatentPlan, MambaPlan, Mixer, SharedExpert,
    },
    spec::{self, Gating, QkNorm, Residual, Values},
};

use super::{Latent, Recurrent, Shape, TAPS};

impl Shape {
    /// What each layer does, as far as its tensors depend on it.
    pub(super) fn plan(&self, il: usize) -> LayerPlan {
        let Self { n_head, mut n_head_kv, mut head_dim, mut n_ff, mut window, .. } = *self;
        let mut kv = KvSource::Projections;
        if let Some(kinds) = self.kinds {
            if (il + 1).is_multiple_of(kinds.period) {
                (head_dim, n_head_kv, window) = (kinds.head_dim_global, kinds.n_head_kv_global, None);
                kv = if kinds.keys_as_values { KvSource::Keys } else { kv };
            }
            if il + kinds.n_shared_kv >= self.n_layer {
                // Which one its tensors do not show.
                (kv, n_ff) = (KvSource::Layer(0), kinds.n_ff_shared_kv);
            }
        }
        let mut rope = layer::Rope::NONE;
        if let Some(Latent { q_rank, n_nope, n_value }) = self.latent {
            rope.n_rot = self.n_rot();
            let (rank, q_rank) = (head_dim - rope.n_rot, (q_rank > 0).then_some(q_rank));
            kv = KvSource::Latent(LatentPlan { rank, q_rank, n_nope, n_value });
        }
        let mut feed_forward = match self.experts.filter(|e| il >= e.leading_dense) {
            None => FeedForwardPlan::Dense { n_ff },
            Some(e) => FeedForwardPlan::Experts(ExpertPlan {
                n_expert: e.n_expert,
                n_used: e.n_used,
                n_ff: e.n_ff,
                gating: self.spec().routing.gating,
                norm: self.spec().routing.norm,
                scale: 1.0,
                bias: self.spec().routing.gating == Gating::Sigmoid,
                groups: None,
                shared: (e.n_ff_shared > 0).then_some(SharedExpert { n_ff: e.n_ff_shared, gated: e.shared_gate }),
                beside: self.kinds.map(|_| n_ff),
                fused: self.kinds.is_some(),
                latent: None,
            }),
        };
        let mixer = match self.recurrent {
            // What lies behind the layers attends.
            _ if il >= self.n_layer => Mixer::Attention,
            Some(Recurrent::DeltaNet { n_head_k, n_head_v, dim }) if !(il + 1).is_multiple_of(4) => {
                let spec::Recurrent::DeltaNet { heads } = self.spec().recurrent else {
                    unreachable!("a row with others")
                };
                Mixer::DeltaNet(DeltaPlan { n_head_k, n_head_v, dim_k: dim, dim_v: dim, taps: TAPS[0], heads })
            }
            Some(Recurrent::ShortConv { attention }) if !attention.contains(&il) => {
                Mixer::ShortConv { taps: TAPS[1], channels: self.n_embd }
            }
            Some(Recurrent::Mamba2 { pattern, n_group, n_head, head_dim, n_state }) => {
                match pattern.as_bytes()[il % pattern.len()] {
                    b'M' => Mixer::Mamba2(MambaPlan { n_group, n_head, head_dim, n_state, taps: TAPS[0], bias: true }),
                    b'*' => Mixer::Attention,
                    _ => Mixer::None,
                }
            }
            _ => Mixer::Attention,
        };
        if self.spec().residual == Residual::Single && mixer != Mixer::None {
            feed_forward = FeedForwardPlan::None;
        }
        if mixer != Mixer::Attention {
            return LayerPlan::without_attention(mixer, feed_forward);
        }
        let qk_norm = match self.spec().qk_norm {
            QkNorm::None | QkNorm::IfPresent => HeadNorm::None,
            QkNorm::Head => HeadNorm::Head,
            QkNorm::Whole => HeadNorm::Whole,
        };
        LayerPlan {
            mixer,
            is_normed: self.spec().is_normed(il),
            n_head,
            n_head_kv,
            head_dim,
            attention_scale: 1.0,
            mask: self.spec().mask,
            window,
            rope,
            qk_norm,
            kv,
            v_norm: self.spec().values == Values::Normed,
            feed_forward,
            n_embd_per_layer: self.kinds.map_or(0, |kinds| kinds.n_embd_per_layer),
            output_scale: self.kinds.is_some(),
        }
    }
}
