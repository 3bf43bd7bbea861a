package soma

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/text/unicode/norm"

	"github.com/stratamem/strata/storage"
)

// A wikilink is [[file]], [[folder/file]], either with #heading or ^block behind it
// and |what is shown; ![[file]] embeds. It is read as Obsidian reads it: without
// .md, in any case, and not in code. What it means is found by [Store.Links].
var wikilink = regexp.MustCompile(`\[\[([^\[\]\n]{1,1000})\]\]`)

// files are the extensions of what Obsidian opens and is no note: links to these
// are none to entities. See "Accepted file formats" in its help.
var files = strings.Fields(`.base .canvas .avif .bmp .gif .jpeg .jpg .png .svg .webp .flac .m4a .mp3 .ogg .wav .webm .3gp .mkv .mov .mp4 .ogv .pdf`)

// target returns what the inside of a wikilink leads to, without .md; "" if
// that is no note of its own.
func target(inside string) string {
	inside, _, _ = strings.Cut(inside, "|")
	inside = strings.TrimSuffix(inside, `\`) // before the bar, in a table
	inside, _, _ = strings.Cut(inside, "#")
	inside, _, _ = strings.Cut(inside, "^")
	inside = norm.NFC.String(strings.TrimSpace(inside))
	ext := strings.ToLower(path.Ext(inside))
	if slices.Contains(files, ext) {
		return ""
	}
	if ext == ".md" {
		inside = inside[:len(inside)-len(ext)]
	}
	for strings.HasPrefix(inside, "../") || strings.HasPrefix(inside, "./") || strings.HasPrefix(inside, "/") {
		_, inside, _ = strings.Cut(inside, "/")
	}
	if len(inside) > 2*maxID || strings.HasSuffix(inside, "/") {
		return ""
	}
	return inside
}

// unlinked returns what a field refers to: itself, or what its wikilink leads to.
func unlinked(ref string) string {
	if m := wikilink.FindStringSubmatch(ref); m != nil && len(m[0]) == len(strings.TrimSpace(ref)) {
		return target(m[1])
	}
	return ref
}

// wikilinkTo returns the wikilink to a name, "" if it would not be read back as that.
func wikilinkTo(name string) string {
	link := "[[" + name + "]]"
	if m := wikilink.FindStringSubmatch(link); m == nil || m[0] != link || target(m[1]) != name {
		return ""
	}
	return link
}

// wikilinks returns what the wikilinks of a text lead to, each once, in order.
func wikilinks(text string) []string {
	if !strings.Contains(text, "[[") {
		return nil
	}
	var list []string
	for _, m := range wikilink.FindAllStringSubmatch(prose(text), -1) {
		if to := target(m[1]); to != "" && !slices.Contains(list, to) {
			list = append(list, to)
		}
	}
	return list
}

// ExtractWikilinks returns the type/id of each [[type/id]] in a text, once, in
// order; [[type/id|shown]] and [[type/id#part]] count as well, what is in code does
// not.
func ExtractWikilinks(text string) []string {
	var list []string
	for _, to := range wikilinks(text) {
		if kind, _, ok := strings.Cut(to, "/"); ok && isType(kind) {
			list = append(list, to)
		}
	}
	return list
}

// prose returns a Markdown text without its fenced blocks and spans of code.
func prose(text string) string {
	var b strings.Builder
	fence := ""
	for line := range strings.Lines(text) {
		bare := strings.TrimLeft(line, " \t>")
		mark := ""
		for _, c := range []string{"`", "~"} {
			if run := bare[:len(bare)-len(strings.TrimLeft(bare, c))]; len(run) >= 3 {
				mark = run
			}
		}
		switch {
		case fence == "" && mark != "" && !(mark[0] == '`' && strings.Contains(bare[len(mark):], "`")):
			fence = mark
		case fence == "":
			b.WriteString(line)
		case strings.HasPrefix(mark, fence) && strings.TrimSpace(bare[len(mark):]) == "":
			fence = ""
		}
	}
	text = b.String()
	b.Reset()
	for text != "" {
		start := strings.IndexByte(text, '`')
		if start < 0 {
			break
		}
		run := text[start : start+len(text[start:])-len(strings.TrimLeft(text[start:], "`"))]
		rest := text[start+len(run):]
		b.WriteString(text[:start])
		if end := closing(rest, run); end >= 0 {
			rest = rest[end:]
			b.WriteByte(' ')
		} else {
			b.WriteString(run)
		}
		text = rest
	}
	b.WriteString(text)
	return b.String()
}

// closing returns where in a text the span of code ends that a run of backticks has
// begun, -1 if it does not.
func closing(text, run string) int {
	paragraph, _, _ := strings.Cut(text, "\n\n")
	for at := 0; ; {
		i := strings.IndexByte(paragraph[at:], '`')
		if i < 0 {
			return -1
		}
		start := at + i
		at = len(paragraph) - len(strings.TrimLeft(paragraph[start:], "`"))
		if at-start == len(run) {
			return at
		}
	}
}

// foldName is a name as links compare it.
func foldName(name string) string { return strings.ToLower(norm.NFC.String(name)) }

// Links returns the links of an entity with the id of what each leads to, by which
// [Store.Read] reads it; what leads nowhere has the id that it was written with, as in
// [Entity.Links]. To is type/id where another entity has the id as well, or where it is
// that of a file that [Store.Sync] has not taken in.
//
// A wikilink means what Obsidian takes it for, as far as that is documented: the
// folder and the name in any case, of several the one in the folder of the
// entity, then the one with the shortest path. A folder is compared as the vault
// makes a type of it: Daily Notes is daily-notes.
func (s *Store) Links(ctx context.Context, e *Entity) ([]Link, error) {
	return (&linker{s: s}).links(ctx, e)
}

// linker finds what links mean.
type linker struct {
	s     *Store
	named map[string][]string // keys of documents by the folded id; nil until one is wanted
}

func (n *linker) links(ctx context.Context, e *Entity) ([]Link, error) {
	var list []Link
	for _, r := range e.references() {
		to, err := n.resolve(ctx, e, &r)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		if err == nil {
			r.To = to
		}
		if r.To != e.ID {
			list = append(list, r.Link)
		}
	}
	return list, nil
}

// leads reports whether a link of an entity leads to an id, or type/id.
func (n *linker) leads(ctx context.Context, e *Entity, to string) (bool, error) {
	for _, r := range e.references() {
		if foldName(r.To) != foldName(bareID(to)) {
			continue
		}
		id, err := n.resolve(ctx, e, &r)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return false, err
		}
		if id == to || err != nil && r.To == to {
			return true, nil
		}
	}
	return false, nil
}

// resolve returns the id, or type/id, of what a reference of an entity leads to.
func (n *linker) resolve(ctx context.Context, from *Entity, r *reference) (string, error) {
	folder, name := path.Split(r.target)
	folder = strings.TrimSuffix(folder, "/")
	if folder == "" && r.mention {
		folder = from.Type // first
	}
	if isType(folder) && name != "" {
		key := folder + "/" + storage.EscapeSegment(name)
		if _, _, err := n.s.db.Get(ctx, key); err == nil {
			return n.s.nameOf(ctx, key)
		} else if !errors.Is(err, ErrNotFound) && !errors.Is(err, storage.ErrInvalid) {
			return "", err
		}
	}
	key, err := n.s.keyOf(ctx, r.To)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return "", err
	}
	if err == nil && (!r.mention || folder == from.Type || inFolder(key, folder)) {
		return n.s.nameOf(ctx, key)
	}
	if r.mention {
		other, ferr := n.find(ctx, from, r.target)
		if ferr != nil {
			return "", ferr
		}
		if other != "" {
			return n.s.nameOf(ctx, other)
		}
	}
	if err != nil {
		return "", err
	}
	return n.s.nameOf(ctx, key)
}

// inFolder reports whether a key is of the type that a folder, or the end of
// its path, has.
func inFolder(key, folder string) bool {
	kind, _, _ := strings.Cut(key, "/")
	want := Slug(norm.NFKD.String(folder))
	want = strings.Map(func(r rune) rune {
		if r > 0x7F {
			return -1
		}
		return r
	}, want)
	return want == "" || kind == want || strings.HasSuffix(kind, "-"+want)
}

// find returns the key of the document with a name in any case, and in a folder if
// that is given; "" if there is none.
func (n *linker) find(ctx context.Context, from *Entity, target string) (string, error) {
	if n.named == nil {
		n.named = make(map[string][]string)
		for key, err := range n.s.db.List(ctx, "") {
			if err != nil {
				return "", fmt.Errorf("read links: %w", err)
			}
			if !storage.IsDocument(key) {
				continue
			}
			if id, _, err := idOf(key); err == nil {
				n.named[foldName(id)] = append(n.named[foldName(id)], key)
			}
		}
	}
	folder, name := path.Split(target)
	best := ""
	for _, key := range n.named[foldName(name)] {
		if !inFolder(key, folder) {
			continue
		}
		near := strings.HasPrefix(key, from.Type+"/")
		switch {
		case best == "", near && !strings.HasPrefix(best, from.Type+"/"):
			best = key
		case near == strings.HasPrefix(best, from.Type+"/") && len(key) < len(best):
			best = key
		}
	}
	return best, nil
}

// nameOf is what [Store.Read] reads the document of a key by: its id, or type/id
// where that id is another document's or, of a file put there by hand, not known yet.
func (s *Store) nameOf(ctx context.Context, key string) (string, error) {
	id, kind, err := idOf(key)
	if err != nil {
		return "", notFound(key)
	}
	other, err := s.keyOf(ctx, id)
	switch {
	case err != nil && !errors.Is(err, ErrNotFound):
		return "", err
	case err != nil || other != key:
		return kind + "/" + id, nil
	}
	return id, nil
}
