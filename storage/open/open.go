// Package open opens a storage engine by one string, for tools and
// configuration files.
//
// It is the one package that imports the engines; programs that know their
// engine import it alone. The one decision: the schemes are listed here, in a
// switch, nothing registers itself, and who has further engines gives them with
// the call.
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

// Options of [Open] mean the same for every engine. The zero value is the
// default.
type Options struct {
	Durability storage.Durability // of the writes; mem has none
	ReadOnly   bool               // refuse writes; mem ignores it
	// Files are the namespaces of records that a vault keeps as files, for
	// example "_governance/"; see [vault.Options]. Others ignore it.
	Files []string
	// Engines are further engines, by their schemes; see [Opener]. One that has
	// the scheme of an engine of this package is opened in its place.
	Engines map[string]Opener
}

// Opener opens a store of an engine. where is what stands behind the scheme and
// its colon, also if that is nothing. opts are those of [Open], never nil; an
// engine that cannot hold to ReadOnly or a Durability returns an error. Where
// there is one, the Adapter is nil, and no interface around a nil pointer.
type Opener func(ctx context.Context, where string, opts *Options) (storage.Adapter, error)

// Open opens the store that spec names: a scheme, a colon, and where the store
// is. "bolt:agent.db" is a bbolt file, "badger:agent" a directory of badger's and
// "vault:notes" one of Markdown files, made if there is none; "mem:" is a new
// store in memory. Options.Engines may have more. A spec that names no engine is a [*storage.InvalidError].
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
			return nil, err // and no Adapter around a nil store
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
