"""Write a llama model with random weights and a byte vocabulary: `tiny_gguf.py FILE`. Runs in `.venv-parts`.

It talks nonsense, thousands of tokens a second on one core, which is all that a test of a relay needs.
"""

from __future__ import annotations

import sys

import gguf  # type: ignore[import-not-found,unused-ignore]
import numpy as np

WIDTH, LAYERS, HEADS, INNER, CONTEXT = 64, 2, 4, 128, 4096
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # kinds of token in a GGUF vocabulary
WORDS = "a and are as at be but by for from had has he her his in is it not of on or she that the they this to was with"
SPACE = "\u2581"  # how a SentencePiece vocabulary writes the blank before a word

Token = tuple[bytes, float, int]


def vocabulary() -> list[Token]:
    """Text, score and kind: three controls, every byte, some words, the letters."""
    tokens: list[Token] = [(b"<unk>", 0.0, UNKNOWN), (b"<s>", 0.0, CONTROL), (b"</s>", 0.0, CONTROL)]
    tokens += [(b"<0x%02X>" % value, -1000.0, BYTE) for value in range(256)]
    pieces = [*(SPACE + word for word in WORDS.split()), *"abcdefghijklmnopqrstuvwxyz", SPACE]
    return tokens + [(piece.encode(), -float(rank), NORMAL) for rank, piece in enumerate(pieces)]


def describe(writer: gguf.GGUFWriter, tokens: list[Token]) -> None:
    """The header: architecture and tokenizer."""
    writer.add_name("tiny")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_file_type(0)
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text for text, _, _ in tokens])
    writer.add_token_scores([score for _, score, _ in tokens])
    writer.add_token_types([kind for _, _, kind in tokens])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(True)
    writer.add_chat_template("{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:")


def weights(size: int) -> dict[str, np.ndarray]:
    """Every tensor of the model; the seed is fixed, so the same bytes come out each time."""
    chance = np.random.default_rng(7)

    def random(*shape: int) -> np.ndarray:
        return (chance.standard_normal(shape) * 0.05).astype(np.float32)

    flat = np.ones(WIDTH, np.float32)
    output = random(size, WIDTH)
    output[:259] *= 0.01  # words rather than controls and raw bytes
    tensors = {"token_embd.weight": random(size, WIDTH), "output_norm.weight": flat, "output.weight": output}
    shapes = {"ffn_gate": (INNER, WIDTH), "ffn_up": (INNER, WIDTH), "ffn_down": (WIDTH, INNER)}
    shapes |= dict.fromkeys(("attn_q", "attn_k", "attn_v", "attn_output"), (WIDTH, WIDTH))
    for layer in range(LAYERS):
        tensors |= {f"blk.{layer}.{name}.weight": random(*shape) for name, shape in shapes.items()}
        tensors |= {f"blk.{layer}.{name}.weight": flat for name in ("attn_norm", "ffn_norm")}
    return tensors


def main(path: str) -> None:
    tokens = vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    describe(writer, tokens)
    for name, values in weights(len(tokens)).items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    main(sys.argv[1])
