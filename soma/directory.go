package soma

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/stratamem/strata/storage"
)

// DefaultVault is the directory of a project's knowledge, unless another is named.
const DefaultVault = ".soma/vault"

// CountEntities counts the entities of a Markdown vault by its files, without
// opening it. A directory that is not there has none.
func CountEntities(dir string) (int, error) {
	types, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("count entities: %w", err)
	}
	n := 0
	for _, t := range types {
		if !t.IsDir() || !isType(t.Name()) {
			continue
		}
		files, err := os.ReadDir(filepath.Join(dir, t.Name()))
		if err != nil {
			return 0, fmt.Errorf("count entities: %w", err)
		}
		for _, f := range files {
			if f.Type().IsRegular() && strings.HasSuffix(f.Name(), ".md") && !strings.HasPrefix(f.Name(), ".") {
				n++
			}
		}
	}
	return n, nil
}

// Fingerprint returns the hex SHA-256 of a Markdown vault's _index.json.
//
// Deprecated: the index is a checkpoint that says little of when something
// changed. Compare [Store.Count] and [Store.Epoch].
func Fingerprint(dir string) (string, error) {
	f, err := os.Open(filepath.Join(dir, "_index.json"))
	if err != nil {
		return "", fmt.Errorf("fingerprint vault: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("fingerprint vault: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

const epochKey = "_epoch"

// Epoch returns an id that the store keeps for life: where it is another one than
// a worker saw last, the store was deleted and made again, however many entities
// it has. The first call makes it.
func (s *Store) Epoch(ctx context.Context) (string, error) {
	for {
		id, _, err := s.db.Get(ctx, epochKey)
		if err == nil || !errors.Is(err, ErrNotFound) {
			return string(id), err
		}
		err = s.db.Apply(ctx, storage.Put(epochKey, []byte(rand.Text())).IfAbsent())
		if err != nil && !errors.Is(err, storage.ErrConflict) {
			return "", fmt.Errorf("make epoch: %w", err)
		}
	}
}
