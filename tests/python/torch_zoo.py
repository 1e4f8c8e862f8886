# SPDX-License-Identifier: Apache-2.0
"""Models with random weights for the tests of torch.compile: {name: function() -> (module, function(batch, size) -> arguments, sizes)}.

`sizes` are the (batch, size) pairs that a test runs; size is that of an image or the length of a sequence, None where it is fixed. The
marked axes of the arguments are dynamic."""
import torch

MODELS = {}
IMAGE, TOKENS = ((2, 64), (3, 96), (5, 64)), ((2, 16), (3, 24), (5, 33))


def model(function):
    MODELS[function.__name__] = function
    return function


def dynamic(tensor, *axes):
    for axis in axes:
        torch._dynamo.mark_dynamic(tensor, axis)
    return tensor


def _image(batch, size):
    return (dynamic(torch.randn(batch, 3, size, size), 0, 2, 3),)


def _fixed_image(extent):
    return lambda batch, _: (dynamic(torch.randn(batch, 3, extent, extent), 0),)


def _timm(name, sizes=IMAGE, fixed=None, **options):
    def make():
        import timm
        made = timm.create_model(name, pretrained=False, **options)
        if fixed:
            return made, _fixed_image(fixed), tuple((batch, None) for batch, _ in sizes)
        return made, _image, sizes
    MODELS[name] = make


for _name in ("resnet18", "mobilenetv3_small_100", "efficientnet_b0", "regnety_002", "densenet121", "ghostnet_100", "repvgg_a0",
              "convnext_atto"):
    _timm(_name)
_timm("vit_tiny_patch16_224", fixed=224)
_timm("mixer_s32_224", fixed=224)
_timm("swin_tiny_patch4_window7_224", fixed=224, depths=(2, 2, 2, 2), embed_dim=48)


class First(torch.nn.Module):
    """The first result of a model of transformers, of tensors by position."""

    def __init__(self, inner, *names, **fixed):
        super().__init__()
        self.inner, self.names, self.fixed = inner, names, fixed

    def forward(self, *tensors):
        return self.inner(**dict(zip(self.names, tensors)), **self.fixed, return_dict=False)[0]


def _tokens(vocabulary):
    def make(batch, length):
        mask = torch.ones(batch, length, dtype=torch.int64)
        mask[0, length - 3:] = 0
        return dynamic(torch.randint(1, vocabulary, (batch, length)), 0, 1), dynamic(mask, 0, 1)
    return make


def _encoder(name, config_name, model_name, **sizes):
    def make():
        import transformers
        config = getattr(transformers, config_name)(**sizes)
        return First(getattr(transformers, model_name)(config), "input_ids", "attention_mask"), _tokens(config.vocab_size), TOKENS
    MODELS[name] = make


_BERT = dict(hidden_size=128, num_hidden_layers=3, num_attention_heads=4, intermediate_size=256, vocab_size=500)
_encoder("bert", "BertConfig", "BertModel", **_BERT)
_encoder("roberta", "RobertaConfig", "RobertaModel", **_BERT)
_encoder("electra", "ElectraConfig", "ElectraModel", **_BERT, embedding_size=64)
_encoder("albert", "AlbertConfig", "AlbertModel", **_BERT, embedding_size=64)
_encoder("distilbert", "DistilBertConfig", "DistilBertModel", dim=128, n_layers=3, n_heads=4, hidden_dim=256, vocab_size=500)
_encoder("mpnet", "MPNetConfig", "MPNetModel", **_BERT)


@model
def t5_encoder():
    import transformers
    config = transformers.T5Config(d_model=128, d_kv=32, d_ff=256, num_layers=3, num_heads=4, vocab_size=500)
    return First(transformers.T5EncoderModel(config), "input_ids", "attention_mask"), _tokens(500), TOKENS


@model
def whisper_encoder():
    import transformers
    config = transformers.WhisperConfig(d_model=128, encoder_layers=2, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4,
                                        encoder_ffn_dim=256, decoder_ffn_dim=256, max_source_positions=100)
    encoder = transformers.models.whisper.modeling_whisper.WhisperEncoder(config)
    return First(encoder, "input_features"), lambda batch, _: (dynamic(torch.randn(batch, 80, 200), 0),), ((2, None), (3, None))


@model
def clip_vision():
    import transformers
    config = transformers.CLIPVisionConfig(hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4,
                                           image_size=64, patch_size=16)
    return First(transformers.CLIPVisionModel(config), "pixel_values"), _fixed_image(64), ((2, None), (3, None))


class Decoder(torch.nn.Module):
    """A decoder with stored keys and values: new tokens and the cache in, logits and the longer cache out."""

    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, tokens, *stored):
        import transformers
        cache = transformers.DynamicCache()
        for layer in range(len(stored) // 2):
            cache.update(stored[2 * layer], stored[2 * layer + 1], layer)
        made = self.inner(input_ids=tokens, past_key_values=cache, use_cache=True)
        return (made.logits, *[t for layer in made.past_key_values.layers for t in (layer.keys, layer.values)])


def _decoder(name, config_name, model_name, heads, depth, **sizes):
    def make():
        import transformers
        config = getattr(transformers, config_name)(vocab_size=500, **sizes)
        config.use_cache = True
        layers = config.num_hidden_layers

        def arguments(batch, past):
            stored = [dynamic(torch.randn(batch, heads, past, depth), 0, 2) for _ in range(2 * layers)]
            return (dynamic(torch.randint(1, 500, (batch, 4)), 0), *stored)
        return Decoder(getattr(transformers, model_name)(config)), arguments, TOKENS
    MODELS[name] = make


_LLAMA = dict(hidden_size=128, intermediate_size=256, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2)
_decoder("gpt2", "GPT2Config", "GPT2LMHeadModel", 4, 32, n_embd=128, n_layer=3, n_head=4)
_decoder("llama", "LlamaConfig", "LlamaForCausalLM", 2, 32, **_LLAMA)
_decoder("qwen2", "Qwen2Config", "Qwen2ForCausalLM", 2, 32, **_LLAMA)
_decoder("mistral", "MistralConfig", "MistralForCausalLM", 2, 32, **_LLAMA, sliding_window=None)
_decoder("gpt_neox", "GPTNeoXConfig", "GPTNeoXForCausalLM", 4, 32, hidden_size=128, intermediate_size=256, num_hidden_layers=3,
         num_attention_heads=4)
_decoder("opt", "OPTConfig", "OPTForCausalLM", 4, 32, hidden_size=128, ffn_dim=256, num_hidden_layers=3, num_attention_heads=4,
         word_embed_proj_dim=128)


class UNet(torch.nn.Module):
    """Of the kind that diffusion uses: time embedding, group norms, an attention, skips, nearest upsampling."""

    class Block(torch.nn.Module):
        def __init__(self, inputs, outputs, time):
            super().__init__()
            self.first = torch.nn.Sequential(torch.nn.GroupNorm(8, inputs), torch.nn.SiLU(), torch.nn.Conv2d(inputs, outputs, 3, padding=1))
            self.time = torch.nn.Linear(time, outputs)
            self.second = torch.nn.Sequential(torch.nn.GroupNorm(8, outputs), torch.nn.SiLU(), torch.nn.Conv2d(outputs, outputs, 3, padding=1))
            self.skip = torch.nn.Conv2d(inputs, outputs, 1)

        def forward(self, x, time):
            return self.skip(x) + self.second(self.first(x) + self.time(time)[:, :, None, None])

    def __init__(self, width=32):
        super().__init__()
        self.into, self.out = torch.nn.Conv2d(4, width, 3, padding=1), torch.nn.Conv2d(width, 4, 3, padding=1)
        self.time = torch.nn.Sequential(torch.nn.Linear(width, 64), torch.nn.SiLU(), torch.nn.Linear(64, 64))
        self.down1, self.down2 = UNet.Block(width, width, 64), UNet.Block(width, 2 * width, 64)
        self.smaller1, self.smaller2 = (torch.nn.Conv2d(c, c, 3, stride=2, padding=1) for c in (width, 2 * width))
        self.middle, self.norm = UNet.Block(2 * width, 2 * width, 64), torch.nn.GroupNorm(8, 2 * width)
        self.qkv, self.project = torch.nn.Linear(2 * width, 6 * width), torch.nn.Linear(2 * width, 2 * width)
        self.up2, self.up1 = UNet.Block(4 * width, width, 64), UNet.Block(2 * width, width, 64)
        self.width = width

    def attend(self, x):
        batch, channels, rows, columns = x.shape
        q, k, v = self.qkv(self.norm(x).flatten(2).transpose(1, 2)).reshape(batch, rows * columns, 3, 4, channels // 4).permute(2, 0, 3, 1, 4)
        made = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return x + self.project(made.transpose(1, 2).flatten(2)).transpose(1, 2).reshape(x.shape)

    def forward(self, x, step):
        half = self.width // 2
        rates = torch.exp(-torch.arange(half, device=x.device) * (9.2 / half))
        angle = step[:, None].float() * rates
        time = self.time(torch.cat([angle.cos(), angle.sin()], dim=1))
        a = self.down1(self.into(x), time)
        b = self.down2(self.smaller1(a), time)
        c = self.attend(self.middle(self.smaller2(b), time))
        c = self.up2(torch.cat([torch.nn.functional.interpolate(c, scale_factor=2.0), b], dim=1), time)
        c = self.up1(torch.cat([torch.nn.functional.interpolate(c, scale_factor=2.0), a], dim=1), time)
        return self.out(torch.nn.functional.silu(c))


@model
def unet():
    def arguments(batch, size):
        return dynamic(torch.randn(batch, 4, size, size), 0, 2, 3), dynamic(torch.randint(0, 1000, (batch,)), 0)
    return UNet(), arguments, ((2, 16), (3, 24), (4, 32))


@model
def transformer_encoder():
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, activation="gelu")
    return torch.nn.TransformerEncoder(layer, 2), lambda batch, length: (dynamic(torch.randn(batch, length, 128), 0, 1),), TOKENS


@model
def segmenter():
    """Transposed convolutions."""
    def stage(a, b):
        return [torch.nn.Conv2d(a, b, 3, stride=2, padding=1, bias=False), torch.nn.BatchNorm2d(b), torch.nn.ReLU()]
    net = torch.nn.Sequential(*stage(3, 16), *stage(16, 32), torch.nn.ConvTranspose2d(32, 16, 4, stride=2, padding=1), torch.nn.ReLU(),
                              torch.nn.ConvTranspose2d(16, 8, 2, stride=2), torch.nn.Sigmoid())
    return net, _image, IMAGE
