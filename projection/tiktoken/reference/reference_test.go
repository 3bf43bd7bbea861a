package reference_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"

	bpe "github.com/pkoukk/tiktoken-go"
	loader "github.com/pkoukk/tiktoken-go-loader"
	"github.com/pkoukk/tiktoken-go-loader/assets"

	"github.com/google/go-cmp/cmp"

	"github.com/stratamem/strata/projection"
	"github.com/stratamem/strata/projection/tiktoken"
	"github.com/stratamem/strata/projection/tiktoken/reference"
)

const text = "It's 12.5 km to 東京 — we'd BETTER go.\n\n\t if err != nil { return }  \xff <|endoftext|>"

// The digests are those that OpenAI's tiktoken checks its downloads with.
func TestVocabulariesAreOpenAIs(t *testing.T) {
	for name, want := range map[string]string{
		tiktoken.CL100K: "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
		tiktoken.O200K:  "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
	} {
		data, err := assets.Assets.ReadFile(name + ".tiktoken")
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != want {
			t.Errorf("%s: digest %s, want %s", name, got, want)
		}
	}
}

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
