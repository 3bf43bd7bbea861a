// Package open opens a storage engine by one string, for tools and
// configuration files.
//
// It is the only package that imports the engines; a program that knows its
// engine imports just that engine. The one decision: the engines are listed
// here, in one table. Nothing registers itself, and a caller with further
// engines passes them in.
package open

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stratamem/strata/storage"
	"github.com/stratamem/strata/storage/badger"
	"github.com/stratamem/strata/storage/bolt"
	"github.com/stratamem/strata/storage/mem"
	"github.com/stratamem/strata/storage/vault"
)

// Options configures [Open] and means the same for every engine. The zero value
// means the defaults.
type Options struct {
	Durability storage.Durability // of the writes; mem has none
	ReadOnly   bool               // refuse writes; mem ignores it
	// Files are the namespaces of records that a vault keeps as files, for example
	// "_governance/"; see [vault.Options]. Other engines ignore it.
	Files []string
	// Engines are further engines by scheme; see [Opener]. An engine here takes
	// precedence over one of this package with the same scheme.
	Engines map[string]Opener
}

// Opener opens a store. where is what follows the scheme and its colon,
// possibly nothing. opts are those of [Open], never nil; an engine that cannot
// honour ReadOnly or a Durability returns an error. With an error, the Adapter
// is nil, not an interface holding a nil pointer.
type Opener func(ctx context.Context, where string, opts *Options) (storage.Adapter, error)

// Open opens the store that spec names: a scheme, a colon, and a location.
// "bolt:agent.db" is a bbolt file, "badger:agent" a directory of Badger's and
// "vault:notes" one of Markdown files, created if necessary; "mem:" is a new
// store in memory. Options.Engines may have more. A spec that names no engine
// is a [*storage.InvalidError].
func Open(ctx context.Context, spec string, opts *Options) (storage.Adapter, error) {
	if opts == nil {
		opts = &Options{}
	}
	scheme, where, ok := strings.Cut(spec, ":")
	if opener := opts.Engines[scheme]; ok && opener != nil {
		return opener(ctx, where, opts)
	}
	known := knownEngines(opts)
	switch {
	case spec == "":
		return nil, unknown("store is not named: use " + known)
	case !ok || strings.ContainsAny(scheme, `/\.`) || len(scheme) == 1: // C:\agent.db
		return nil, unknown(fmt.Sprintf("%q names no engine: use %q, or one of %s", spec, "bolt:"+spec, known))
	}
	for _, e := range engines {
		switch {
		case e.scheme != scheme:
			continue
		case e.where == "" && where != "":
			return nil, unknown(fmt.Sprintf("%q takes nothing after its colon", scheme+":"))
		case e.where != "" && where == "":
			return nil, unknown(fmt.Sprintf("%q needs %s", scheme+":", e.needs))
		}
		return e.open(ctx, where, opts)
	}
	return nil, unknown(fmt.Sprintf("engine %q is not known: use one of %s", scheme, known))
}

// engines are those that Open knows by itself. where is what a spec has behind the
// colon, "" for nothing, and needs says so to whoever left it out.
var engines = []struct {
	scheme, where, needs string
	open                 Opener
}{
	{"bolt", "FILE", `a file: use "bolt:agent.db"`, func(ctx context.Context, file string, o *Options) (storage.Adapter, error) {
		return made(bolt.Open(ctx, file, &bolt.Options{Durability: o.Durability, ReadOnly: o.ReadOnly}))
	}},
	{"badger", "DIR", `a directory: use "badger:agent"`, func(ctx context.Context, dir string, o *Options) (storage.Adapter, error) {
		return made(badger.Open(ctx, dir, &badger.Options{Durability: o.Durability, ReadOnly: o.ReadOnly}))
	}},
	{"vault", "DIR", `a directory: use "vault:notes"`, func(ctx context.Context, dir string, o *Options) (storage.Adapter, error) {
		return made(vault.Open(ctx, dir, &vault.Options{Durability: o.Durability, ReadOnly: o.ReadOnly, Files: o.Files}))
	}},
	{"mem", "", "", func(ctx context.Context, _ string, _ *Options) (storage.Adapter, error) { return mem.New(), ctx.Err() }},
}

// made returns what an engine made, and no Adapter around a nil pointer if that is
// nothing.
func made[S storage.Adapter](s S, err error) (storage.Adapter, error) {
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Schemes returns the schemes of the engines that [Open] knows by itself and that keep
// what they are given: all but "mem".
func Schemes() []string {
	var list []string
	for _, e := range engines {
		if e.where != "" {
			list = append(list, e.scheme)
		}
	}
	return list
}

// knownEngines lists how specs begin.
func knownEngines(opts *Options) string {
	var list []string
	for _, e := range engines {
		list = append(list, strconv.Quote(e.scheme+":"+e.where))
	}
	for _, scheme := range slices.Sorted(maps.Keys(opts.Engines)) {
		list = append(list, strconv.Quote(scheme+":"))
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

func unknown(rule string) error { return &storage.InvalidError{Rule: rule} }
