// Package open opens a storage engine by one string, for tools and
// configuration files.
//
// It is the only package that imports the engines; a program that knows its
// engine imports just that engine. The one decision: the schemes are listed
// here, in a switch. Nothing registers itself, and a caller with further
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
	case scheme == "bolt" && where == "":
		return nil, unknown(`"bolt:" needs a file: use "bolt:agent.db"`)
	case scheme == "bolt":
		s, err := bolt.Open(ctx, where, &bolt.Options{Durability: opts.Durability, ReadOnly: opts.ReadOnly})
		if err != nil {
			return nil, err // not an Adapter that holds a nil store
		}
		return s, nil
	case scheme == "badger" && where == "":
		return nil, unknown(`"badger:" needs a directory: use "badger:agent"`)
	case scheme == "badger":
		s, err := badger.Open(ctx, where, &badger.Options{Durability: opts.Durability, ReadOnly: opts.ReadOnly})
		if err != nil {
			return nil, err
		}
		return s, nil
	case scheme == "vault" && where == "":
		return nil, unknown(`"vault:" needs a directory: use "vault:notes"`)
	case scheme == "vault":
		s, err := vault.Open(ctx, where, &vault.Options{Durability: opts.Durability, ReadOnly: opts.ReadOnly, Files: opts.Files})
		if err != nil {
			return nil, err
		}
		return s, nil
	case scheme == "mem" && where != "":
		return nil, unknown(`"mem:" takes nothing after its colon`)
	case scheme == "mem":
		return mem.New(), ctx.Err()
	}
	return nil, unknown(fmt.Sprintf("engine %q is not known: use one of %s", scheme, known))
}

// knownEngines lists how specs begin.
func knownEngines(opts *Options) string {
	list := []string{`"bolt:FILE"`, `"badger:DIR"`, `"vault:DIR"`, `"mem:"`}
	for _, scheme := range slices.Sorted(maps.Keys(opts.Engines)) {
		list = append(list, strconv.Quote(scheme+":"))
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " and " + list[last]
}

func unknown(rule string) error { return &storage.InvalidError{Rule: rule} }
