package tiktoken_test

import (
	"fmt"
	"log"

	"github.com/stratamem/strata/projection/tiktoken"
)

func ExampleForModel() {
	tok, err := tiktoken.ForModel("gpt-4o-mini")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tok.Name(), tok.Count("antidisestablishmentarianism"))
	// Output: o200k_base 6
}

func ExampleTokenizer_Encode() {
	tok, err := tiktoken.New(tiktoken.O200K)
	if err != nil {
		log.Fatal(err)
	}
	ids := tok.Encode("Größe: 12,5 €")
	fmt.Println(ids)
	text, err := tok.Decode(ids)
	fmt.Println(text, err)
	// Output:
	// [3193 52715 25 220 899 11 20 7950]
	// Größe: 12,5 € <nil>
}

// A page that somebody sent is cut to what the prompt has room for. Of a text of
// any length no more is read than the limit asks for.
func ExampleTokenizer_CutTo() {
	tok, err := tiktoken.New(tiktoken.O200K)
	if err != nil {
		log.Fatal(err)
	}
	page := "The release moved to Thursday because the index rebuild takes nine hours."
	const room = 6
	if tok.CountUpTo(page, room) > room {
		page = tok.CutTo(page, room)
	}
	fmt.Printf("%q has %d tokens\n", page, tok.Count(page))
	// Output: "The release moved to Thursday because" has 6 tokens
}

// An answer is counted while it arrives.
func ExampleTokenizer_Counter() {
	tok, err := tiktoken.New(tiktoken.O200K)
	if err != nil {
		log.Fatal(err)
	}
	answer := tok.Counter()
	for _, delta := range []string{"We cut", " over at 02", ":30 U", "TC."} {
		answer.Append(delta)
		fmt.Println(answer.Count())
	}
	// Output:
	// 2
	// 6
	// 9
	// 10
}
