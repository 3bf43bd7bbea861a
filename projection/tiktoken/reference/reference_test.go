package reference_test

import (
	"errors"
	"testing"

	bpe "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/projection/tiktoken/reference"
)

const text = "It's 12.5 km to 東京 — we'd BETTER go.\n\n\t if err != nil { return }  \xff <|endoftext|>"

func TestIsTheLibrary(t *testing.T) {
	bpe.SetBpeLoader(loader.NewOfflineLoader())
	for _, name := range []string{tiktoken.CL100K, tiktoken.O200K} {
		ref, err := reference.New(name)
		if err != nil {
			t.Fatal(err)
		}
		lib, err := bpe.GetEncoding(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(lib.EncodeOrdinary(text), ref.Encode(text)); diff != "" {
			t.Errorf("%s (-library +reference):\n%s", name, diff)
		}
	}
}

// Either can stand for the other.
func TestIsLikeTiktoken(t *testing.T) {
	for _, name := range []string{tiktoken.CL100K, tiktoken.O200K} {
		ref, err := reference.New(name)
		if err != nil {
			t.Fatal(err)
		}
		tok, err := tiktoken.New(name)
		if err != nil {
			t.Fatal(err)
		}
		if ref.Name() != tok.Name() || ref.Overhead() != tok.Overhead() || ref.Count(text) != tok.Count(text) {
			t.Errorf("%s: name %s, overhead %d, %d tokens, want %s, %d, %d", name,
				ref.Name(), ref.Overhead(), ref.Count(text), tok.Name(), tok.Overhead(), tok.Count(text))
		}
		for _, p := range []projection.Part{
			{Type: projection.TextPart, Text: text},
			{Type: projection.ImagePart, URL: "https://example.com/a.png"},
			{Type: projection.FilePart, MediaType: "text/plain", Data: []byte(text)},
			{Type: projection.FilePart, Data: []byte(text)},
		} {
			if got, want := ref.CountPart(p), tok.CountPart(p); got != want {
				t.Errorf("%s: a part of type %v has %d tokens, want %d", name, p.Type, got, want)
			}
		}
	}
	if _, err := reference.New("p50k_base"); !errors.Is(err, tiktoken.ErrUnknown) {
		t.Errorf("p50k_base: error %v, want ErrUnknown", err)
	}
}
