package vault

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/stratamem/strata/storage"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// The key type/id is the file type/id.md. Whatever some file system would
// reject or not distinguish is escaped in the name:
//
//	^a        the capital A, and so on to ^z
//	=XX       a byte, in hex: control characters, / \ : * ? " < > | = ^, a % that
//	          is no escape of storage.EscapeSegment, every byte of a rune
//	          that is not printable, that changes under NFC or case folding
//	          or that combines with the one before it, the first byte
//	          of a name that Windows reserves, and a leading dot
//	%XX       an escape of storage.EscapeSegment stays as it is
//
// A name over 200 bytes is cut and ends in == and the first 16 bytes of the
// SHA-256 of the key in hex; the key is then in the front matter. A literal =
// is always escaped, so no other name contains ==.
//
// People name files as they like: a name that this scheme would not produce is
// read by the same rules, taking literally what is not an escape, and the file
// keeps its name. So do folders, see layout.go.
//
// Records in a namespace of files are named by record.go.
const (
	extension = ".md"
	mostName  = 200
	cutMark   = "=="
	cutDigest = 16 // bytes
)

// split splits a document's key into its type and its id.
func split(key string) (kind, id string) {
	kind, id, _ = strings.Cut(key, "/")
	return kind, id
}

// fileOf returns the directory and file name of a document, or of a record in a
// namespace of files, and whether either was cut.
func (l *layout) fileOf(key string) (dir, name string, cut bool) {
	if !storage.IsDocument(key) {
		dir, name = recordFile(key)
		return dir, name, false
	}
	kind, id := split(key)
	dir, dirCut := kind, false
	folder, adopted := l.folder(kind)
	switch {
	case adopted:
		dir = folder
	case len(kind) > mostName || reserved(kind):
		dir, dirCut = fit(escapeName(kind), kind, mostName)
	}
	stem := escapeName(id)
	if adopted && stem[0] == '_' { // keyOf takes it for a name given by a person
		stem = "=5F" + stem[1:]
	}
	stem, nameCut := fit(stem, key, mostName-len(extension))
	return dir, stem + extension, dirCut || nameCut
}

// fit cuts an escaped name that is too long.
func fit(name, of string, most int) (string, bool) {
	if len(name) <= most {
		return name, false
	}
	sum := sha256.Sum256([]byte(of))
	end := most - len(cutMark) - 2*cutDigest
	// Cut neither a rune nor an escape in two.
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	for back := 1; back <= 2 && end-back >= 0; back++ {
		if c := name[end-back]; c == '=' || c == '%' || c == '^' && back == 1 {
			end -= back
			break
		}
	}
	return name[:end] + cutMark + hex.EncodeToString(sum[:cutDigest]), true
}

// isCut reports whether a directory or file name was cut.
func isCut(name string) bool { return strings.Contains(name, cutMark) }

// keyOf returns the key of the file dir/name, and false if it is not the name
// of a document or record. A cut name does not reveal its key.
func (l *layout) keyOf(dir, name string) (string, bool) {
	if l.isSpace(top(dir)) {
		return recordKey(dir, name)
	}
	stem, ok := strings.CutSuffix(name, extension)
	if !ok || stem == "" || name[0] == '.' || isCut(stem) || isCut(dir) {
		return "", false
	}
	kind, ok := l.kindOf(dir)
	if !ok {
		return "", false
	}
	id := unescapeName(norm.NFC.String(stem))
	if _, adopted := l.folder(kind); adopted {
		// A name given by a person need not be escaped text: _index, 100%.
		if _, err := storage.UnescapeSegment(id); err != nil && utf8.ValidString(id) {
			if _, made, _ := l.fileOf(kind + "/" + id); made != name {
				id = storage.EscapeSegment(id)
			}
		}
	}
	key := kind + "/" + id
	return key, storage.ValidateKey(key) == nil
}

// kindOf returns the type to which a directory belongs.
func (l *layout) kindOf(dir string) (string, bool) {
	if kind, ok := l.kind(dir); ok {
		return kind, kind != ""
	}
	kind := unescapeName(dir)
	made, _, _ := l.fileOf(kind + "/x")
	return kind, made == dir && storage.IsDocument(kind) && storage.ValidateKey(kind+"/x") == nil
}

// holdsFiles reports whether a directory of the vault belongs to a type or
// namespace.
func (l *layout) holdsFiles(dir string) bool { return l.isSpace(dir) || l.holdsDocuments(dir) }

// holdsDocuments reports whether a directory of the vault belongs to a type.
func (l *layout) holdsDocuments(dir string) bool {
	if _, ok := l.kind(dir); !ok && isCut(dir) {
		return true
	}
	_, ok := l.kindOf(dir)
	return ok
}

func escapeName(text string) string {
	if plainName(text) {
		return text
	}
	var b strings.Builder
	b.Grow(len(text) + 16)
	for i := 0; i < len(text); {
		c := text[i]
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case c >= 'A' && c <= 'Z':
			b.WriteByte('^')
			b.WriteByte(c + 'a' - 'A')
		case c == '%' && isHex(text[i+1:], upperHex):
			b.WriteString(text[i : i+3])
			n = 3
		case c < utf8.RuneSelf && (strings.IndexByte(special, c) >= 0 || c < 0x20 || c == 0x7F),
			c == '.' && i == 0, i == 0 && reserved(text),
			c >= utf8.RuneSelf && !keeps(text[i:i+n], r):
			for range n {
				writeByte(&b, text[i])
				i++
			}
			continue
		default:
			b.WriteString(text[i : i+n])
		}
		i += n
	}
	return b.String()
}

const (
	special  = `%=^/\:*?"<>|`
	upperHex = "0123456789ABCDEF"
)

// plainName reports whether an ASCII text needs no escapes.
func plainName(text string) bool {
	for i := range len(text) {
		c := text[i]
		if c < 0x20 || c >= 0x7F || c >= 'A' && c <= 'Z' || strings.IndexByte(special, c) >= 0 {
			return false
		}
	}
	return text != "" && text[0] != '.' && !reserved(text)
}

func writeByte(b *strings.Builder, c byte) {
	b.WriteByte('=')
	b.WriteByte(upperHex[c>>4])
	b.WriteByte(upperHex[c&15])
}

// isHex reports whether text begins with two hex digits.
func isHex(text, digits string) bool {
	return len(text) >= 2 && strings.IndexByte(digits, text[0]) >= 0 && strings.IndexByte(digits, text[1]) >= 0
}

// keeps reports whether every file system distinguishes a rune beyond ASCII
// from others.
func keeps(text string, r rune) bool {
	switch {
	case r == utf8.RuneError || !unicode.IsPrint(r):
		return false
	case unicode.ToLower(unicode.ToUpper(r)) != r: // shares its capital with another
		return false
	case cases.Fold().String(text) != text:
		return false
	}
	// A system that keeps names in NFD splits it in two; keyOf joins them.
	return norm.NFC.IsNormalString(text) &&
		norm.NFC.PropertiesString(text).BoundaryBefore() && norm.NFKC.PropertiesString(text).BoundaryBefore()
}

// reserved reports whether Windows takes the name for a device.
func reserved(text string) bool {
	stem, _, _ := strings.Cut(text, ".")
	stem = strings.TrimRight(stem, " ")
	switch len(stem) {
	case 3:
		return stem == "con" || stem == "prn" || stem == "aux" || stem == "nul"
	case 4:
		return (stem[:3] == "com" || stem[:3] == "lpt") && stem[3] >= '0' && stem[3] <= '9'
	}
	return false
}

// unescapeName reverses escapeName. It takes literally what is not an escape.
func unescapeName(name string) string {
	if strings.IndexByte(name, '=') < 0 && strings.IndexByte(name, '^') < 0 {
		return name
	}
	var b strings.Builder
	for i := 0; i < len(name); i++ {
		c := name[i]
		switch {
		case c == '^' && i+1 < len(name) && name[i+1] >= 'a' && name[i+1] <= 'z':
			b.WriteByte(name[i+1] - 'a' + 'A')
			i++
		case c == '=' && isHex(name[i+1:], upperHex):
			b.WriteByte(byte(strings.IndexByte(upperHex, name[i+1])<<4 | strings.IndexByte(upperHex, name[i+2])))
			i += 2
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
