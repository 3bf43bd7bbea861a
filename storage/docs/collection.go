package docs

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/search"
)

// Owner identifies whose a collection is. Collections of different owners are
// independent, whatever their names. The zero Owner is everyone who uses the
// store.
type Owner struct {
	Kind, ID string // for example "resource" and a person's id
}

// Options configures a collection. The zero value means the defaults.
type Options struct {
	// Language is that of stemming and stop words, as in search.Options. The
	// default is the language of the collection if it exists, or else English. Any
	// other language than that of the collection is a [*search.MismatchError].
	Language string
	// Ranking weighs what makes a passage relevant. A zero field means a default
	// for documents: B 0.5, Floor 0.55, K1 as in search.Ranking, and none of the
	// other cues, which are for conversations: measured on documents, they found
	// nothing more, and the score of a whole long file lifted irrelevant passages
	// above the floor.
	Ranking search.Ranking
}

// Collection is a named set of documents in a store. It is safe for concurrent
// use, and any number of processes may use the same one; each call sees what is
// in the store when it begins. It keeps in memory what the index needs to
// answer, at most 10 MB and about 30 bytes a passage, once for searching and
// once for changing. There is nothing to close.
type Collection struct {
	store   storage.Adapter
	space   storage.Scoped
	index   storage.Scoped
	options Options
	checker *search.Index // knows what passages the store accepts; never read

	mu       sync.Mutex
	reader   *search.Index // nil until a head was read
	language string        // of reader

	writing sync.Mutex // held by one writer of this process
	writer  *search.Index
}

// DefaultName is the name of a collection without a name.
const DefaultName = "default"

const (
	docsSpace  = "_docs/"
	headKey    = "head"
	filePrefix = "f/"
	indexSpace = "i"

	maxSegment = 256 // bytes of each part of a collection's prefix
	longestKey = 48  // bytes of the longest key below it, that of a passage
	headFormat = 1
)

// head is the record of a collection, in JSON.
type head struct {
	Format   int    `json:"format"`
	Language string `json:"language"`
	Revision int64  `json:"revision"` // counts the batches
}

// Open returns the named collection of an owner; "" means [DefaultName]. It
// reads and writes nothing: a collection exists once a document was put into
// it. nil opts are the defaults.
func Open(store storage.Adapter, owner Owner, name string, opts *Options) (*Collection, error) {
	name = cmp.Or(name, DefaultName)
	for _, text := range []string{owner.Kind, owner.ID, name} {
		if !utf8.ValidString(text) || len(storage.EscapeSegment(text)) > maxSegment {
			return nil, fmt.Errorf("open collection: name or owner is over %d bytes when escaped, or not UTF-8", maxSegment)
		}
	}
	prefix := docsSpace + storage.Join(owner.Kind, owner.ID, name)
	c := &Collection{store: store, space: storage.Scope(store, prefix), index: storage.Scope(store, prefix+"/"+indexSpace)}
	if opts != nil {
		c.options = *opts
	}
	r := &c.options.Ranking
	for _, f := range []struct {
		field *float64
		value float64
	}{
		{&r.B, 0.5}, {&r.Floor, 0.55}, {&r.Session, -1}, {&r.Previous, -1}, {&r.Next, -1}, {&r.Speaker, -1},
		{&r.Date, -1}, {&r.When, -1}, {&r.Answer, -1}, {&r.Far, -1},
	} {
		*f.field = cmp.Or(*f.field, f.value)
	}
	var err error
	if c.checker, err = c.newIndex(c.options.Language); err != nil {
		return nil, err
	}
	if left := c.space.Limits().Key; left < longestKey {
		return nil, fmt.Errorf("open collection: name and owner leave %d bytes of the store's keys, and %d are needed: use shorter ones", left, longestKey)
	}
	return c, nil
}

func (c *Collection) newIndex(language string) (*search.Index, error) {
	return search.New(&search.Options{Language: language, Ranking: c.options.Ranking})
}

// Place is where a collection is.
type Place struct {
	Owner Owner
	Name  string
}

// Places yields the collections of a store, in the byte order of their keys. It
// reads one entry for each.
func Places(ctx context.Context, store storage.Adapter) iter.Seq2[Place, error] {
	collection := func(key string) (string, bool) {
		parts := strings.SplitN(key[len(docsSpace):], "/", 4)
		return docsSpace + strings.Join(parts[:min(len(parts), 3)], "/"), len(parts) == 4
	}
	return func(yield func(Place, error) bool) {
		for group, err := range storage.Groups(ctx, store, docsSpace, collection) {
			if err != nil {
				yield(Place{}, fmt.Errorf("list collections: %w", err))
				return
			}
			parts := strings.Split(group[len(docsSpace):], "/")
			kind, err1 := storage.UnescapeSegment(parts[0])
			id, err2 := storage.UnescapeSegment(parts[1])
			name, err3 := storage.UnescapeSegment(parts[2])
			if errors.Join(err1, err2, err3) == nil && !yield(Place{Owner{kind, id}, name}, nil) {
				return
			}
		}
	}
}

// read returns the head of the collection and its version; the head of one that
// does not exist is zero.
func (c *Collection) read(ctx context.Context) (head, storage.Version, error) {
	var h head
	value, version, err := c.store.Get(ctx, c.space.Key(headKey))
	if errors.Is(err, storage.ErrNotFound) {
		return h, "", nil
	}
	if err != nil {
		return h, "", fmt.Errorf("read collection: %w", err)
	}
	if json.Unmarshal(value, &h) != nil || h.Format < 1 {
		return h, "", &storage.CorruptError{Key: c.space.Key(headKey), Reason: "head of a collection is damaged", Repair: "restore it from a backup"}
	}
	if h.Format > headFormat {
		return h, "", &storage.FormatError{Reason: fmt.Sprintf("collection of documents has format %d", h.Format), Newer: true}
	}
	if wanted := c.options.Language; wanted != "" && wanted != h.Language {
		return h, "", &search.MismatchError{Stored: h.Language, Wanted: wanted}
	}
	return h, version, nil
}

// searcher returns the index to search, or nil if the collection does not
// exist.
func (c *Collection) searcher(ctx context.Context) (*search.Index, error) {
	h, _, err := c.read(ctx)
	if err != nil || h.Format == 0 {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reader == nil || c.language != h.Language {
		ix, err := c.newIndex(h.Language)
		if err != nil {
			return nil, err
		}
		c.reader, c.language = ix, h.Language
	}
	return c.reader, nil
}

// Exists reports whether a document was ever put into the collection.
func (c *Collection) Exists(ctx context.Context) (bool, error) {
	h, _, err := c.read(ctx)
	return h.Format > 0, err
}

// List returns what the collection knows of its documents, sorted by name.
func (c *Collection) List(ctx context.Context) ([]File, error) {
	var list []File
	for e, err := range c.space.Scan(ctx, filePrefix, nil) {
		if err != nil {
			return nil, fmt.Errorf("list documents: %w", err)
		}
		var f File
		if json.Unmarshal(e.Value, &f) != nil || filePrefix+fileID(f.Name) != e.Key {
			return nil, &storage.CorruptError{Key: c.space.Key(e.Key), Reason: "record of a document is damaged", Repair: "delete it and add the document again"}
		}
		list = append(list, f)
	}
	slices.SortFunc(list, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Below reports whether a document's name equals what is asked for or lies
// below it as a folder. "." is the folder of all names that begin neither with
// "/" nor with "..".
func Below(folder, name string) bool {
	if folder == "." {
		return name != ".." && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "../")
	}
	return name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/")
}

// Query is a question to a collection.
type Query struct {
	Text string
	// Files are names of documents, and of folders, which stand for everything
	// below them; see [Below]. Empty means all.
	Files []string
	Kinds []string // of documents; empty means all
	Limit int      // maximum number of passages; 0 means 10
	Floor float64  // replaces that of the ranking; negative: none
}

// Hit is a passage that was found.
type Hit struct {
	Passage
	Score float64 `json:"score"` // about 1 for all the information the query asks for
	Key   string  `json:"key"`   // of the passage's record in the store
}

// Result is the answer to a query.
type Result struct {
	Hits []Hit  // best first
	Note string // why there are no hits, or empty
}

// Search returns the passages that answer a question best, if there are any;
// package search explains the ranking. Each contains a word of the question in
// its text or heading, and scores at least half of the best.
func (c *Collection) Search(ctx context.Context, q Query) (Result, error) {
	ix, err := c.searcher(ctx)
	if err != nil {
		return Result{}, err
	}
	if ix == nil {
		return Result{Note: "the collection has no documents"}, nil
	}
	limit := q.Limit
	if limit <= 0 {
		limit = 10
	}
	query := search.Query{Text: q.Text, Limit: 2 * limit, Floor: q.Floor, Around: -1, Filter: search.Filter{Types: q.Kinds}}
	if len(q.Files) > 0 {
		if query.Filter.Sessions, err = c.expand(ctx, q.Files); err != nil {
			return Result{}, err
		}
		if len(query.Filter.Sessions) == 0 {
			return Result{Note: "the collection has no document of these names"}, nil
		}
	}
	res, err := ix.Search(ctx, c.index, query)
	if err != nil {
		return Result{}, err
	}
	out := Result{Note: res.Note}
	for i := range res.Hits {
		h := &res.Hits[i]
		if h.Parts.Words == 0 || h.Score < res.Hits[0].Score/2 || len(out.Hits) == limit {
			continue
		}
		out.Hits = append(out.Hits, Hit{Passage: passage(&h.Doc), Score: h.Score, Key: c.index.Key(search.DocKey(h.ID))})
	}
	if len(out.Hits) == 0 && out.Note == "" {
		out.Note = "what was found has no word of the query, or is being replaced"
	}
	return out, nil
}

// expand returns the names of the documents at or below some names.
func (c *Collection) expand(ctx context.Context, names []string) ([]string, error) {
	files, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	var list []string
	for i := range files {
		if slices.ContainsFunc(names, func(n string) bool { return Below(n, files[i].Name) }) {
			list = append(list, files[i].Name)
		}
	}
	return list, nil
}
