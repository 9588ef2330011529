"""Queries with the section that should answer each, written from the table of contents."""

QUERIES = {
    # A topic: the section that explains it
    "residual connection": "15_building_the_transformer#residual-connections",
    "label smoothing": "16_training_the_transformer"
    "#label-smoothing-a-target-distribution-without-zeros",
    "beam search stopping": "05_decoding#when-beam-search-stops",
    "bleu brevity": "06_scoring_and_the_bottleneck#by-hand-bleu-of-one-sentence",
    "positional encoding": "13_positional_encoding#positional-encoding",
    "multi-head attention": "14_multi_head_attention#multi-head-attention",
    "activation patching": "17_translating_with_it#activation-patching",
    "attention knockout": "17_translating_with_it#attention-knockout",
    "vanishing gradients": "03_recurrent_networks"
    "#backpropagation-through-time-vanishing-and-exploding-gradients",
    "gradient clipping": "03_recurrent_networks#gradient-clipping",
    "exploding gradients": "03_recurrent_networks#exploding-gradients-and-clipping",
    "teacher forcing": "04_encoder_and_decoder#why-train-with-teacher-forcing",
    "length penalty": "05_decoding#length-penalties",
    "top-k sampling": "05_decoding#sampling-with-temperature-top-k-and-top-p",
    "zipf": "02_subwords#word-frequencies-zipf-s-law",
    "social bias": "01_embeddings#social-bias-in-word-vectors",
    "causal mask": "12_self_attention#padding-mask-and-causal-mask",
    "why divide by sqrt d_k": "12_self_attention#why-the-scores-are-divided-by-sqrt-d-k",
    "mixture of experts": "21_since_2017#mixture-of-experts",
    "scaling laws": "21_since_2017#experiment-scaling-laws",
    "DPO": "after_pretraining#dpo-the-preference-loss-without-a-reward-model",
    "rope": "21_since_2017#positions-rope-relative-embeddings-and-alibi",
    "flash attention": "20_faster#flashattention-1-2-and-3",
    "tied embeddings": "15_building_the_transformer#tied-embeddings",
    "lora fine-tuning": "19_heads_for_other_tasks#parameter-efficient-fine-tuning-lora",
    "how to grade submissions": "instructors#step-6-grade-10-minutes",
    # A topic of several chapters: the first of them
    "attention": "08_additive_attention#additive-attention",
    "what is attention": "08_additive_attention#additive-attention",
    "transformer": "15_building_the_transformer#building-the-transformer",
    # A question in full
    "when does beam search stop": "05_decoding#when-beam-search-stops",
    # Other forms of the words
    "smoothed labels": "16_training_the_transformer"
    "#label-smoothing-a-target-distribution-without-zeros",
    "initialization": "15_building_the_transformer#initialisation",
    "Nadaraya Watson": "07_queries_keys_and_values#the-nadarayawatson-estimator",
    "hard attention": "07_queries_keys_and_values#experiment-hard-and-soft-attention",
    # Slips
    "sofmax": "glossary#term-softmax",
    "positonal encoding": "13_positional_encoding#positional-encoding",
    "atention wieghts": "glossary#term-attention-weight",
    "perplexty": "glossary#term-perplexity",
    "quantistaion": "20_faster#quantisation",
    "bahdannau": "bibliography#id2",
    # A term of the glossary that no heading has
    "ablation study": "glossary#term-ablation",
    "autoregressive": "glossary#term-autoregressive",
    "nats": "glossary#term-nats",
    # A word that is still being typed
    "specul": "17_translating_with_it#extension-speculative-decoding",
    "sinusoi": "13_positional_encoding#the-equation-sinusoidal-positional-encoding",
    # A name in code: the section that prints it, or its entry in the API
    "masked_softmax": "07_queries_keys_and_values#the-code-masked-softmax-and-kernelpooling",
    "AdditiveAttention": "08_additive_attention#the-code-additiveattention",
    "MultiHeadAttention": "14_multi_head_attention#the-code-multiheadattention",
    "load_pretrained": "api#attentively.models.checkpoints.load_pretrained",
    # A work
    "attention is all you need": "bibliography#id14",
}
