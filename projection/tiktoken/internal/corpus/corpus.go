// Package corpus has texts that a tokenizer may get wrong, for the tests of
// package tiktoken and of package reference, which is in a module of its own.
// It is only for tests.
package corpus

import (
	"math/rand/v2"
	"strings"
	"unicode/utf8"
)

// Prose is English, code, German, Japanese, Russian, signs and a URL.
const Prose = `The deadline isn't Friday any more, it's the 14th: we'll cut over at 02:30 UTC.
	if err := db.Ping(ctx); err != nil { return fmt.Errorf("ping replica %d: %w", i, err) }
Größe: 12,5 € … 東京で会いましょう 👩‍💻 (тест) <|endoftext|> https://example.com/a?b=c#d
`

// fragments are texts that a splitter may get wrong when they are adjacent.
var fragments = strings.Split("a|b|z|A|Q|É|é|ß|ſ|İ|K|ǅ|ʰ|ª|日|本|の|한|ก|ا|א|\u0301|\u0903|\u20dd|\U000e0101|\U00020000|"+
	"1|23|456|7890|½|٣|Ⅷ|𝟘|'|'s|'S|'T|'re|'VE|'ll|'Ll|'d|'m|'ſ|’s|"+
	" |  |     |\t|\v|\u00a0|\u2003|\u3000|\u0085|\u2028|\u200b|\ufeff|\n|\r|\r\n|\n\n|\n \n|/|//|/\n|"+
	"!|?|.|,|...|(|)|{}|;|=|==|<|endoftext|>|<|fim|$|€|👩|👩‍💻|🇩🇪|☃|\ufffd|\xff|\xe6|\xe6\x97|\xed\xa0\x80|\x80|\x00|"+
	" the| is|ing|Hello| World|func|return|HTTPServer|camelCase|snake_case|https://", "|")

// Random returns a text of up to thirty pieces: fragments, runs of one, runes,
// bytes, and tokens of o200k_base, which token returns by id.
func Random(rng *rand.Rand, token func(id int) string) string {
	var text []byte
	for range 1 + rng.IntN(30) {
		switch rng.IntN(8) {
		case 0: // any rune
			text = utf8.AppendRune(text, rune(rng.IntN(1<<(4+rng.IntN(17)))))
		case 1: // any token
			text = append(text, token(rng.IntN(199_998))...)
		case 2: // any byte
			text = append(text, byte(rng.Uint32()))
		case 3: // a run
			f := fragments[rng.IntN(len(fragments))]
			text = append(text, strings.Repeat(f, rng.IntN(40))...)
		default:
			text = append(text, fragments[rng.IntN(len(fragments))]...)
		}
	}
	return string(text)
}
