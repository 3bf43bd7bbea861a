package projection

import "iter"

// Band is a region of a view. Bands are in the order of the constants.
type Band string

// The bands of a view.
const (
	BandSystem  Band = "system"
	BandAnchor  Band = "anchor"  // layers held still for the epoch
	BandHistory Band = "history" // the log, with the summary and published updates
	BandLive    Band = "live"    // layers rendered anew every time
	BandUpdates Band = "updates" // newer texts of anchored layers, sent until published
	BandTail    Band = "tail"    // what the host wants last
)

// Segment is a run of items in one band. Items are shared with the log and the
// epoch and must not be modified.
type Segment struct {
	Band  Band
	Items []Item
	Sizes []int // tokens of each item in the updates band; nil in other bands
	// From is the index in the conversation of Items[0] if the segment is a stretch of the
	// log, and -1 otherwise.
	From int
}

// View is what to send to the model: an ordered list of items that fits the
// cap, and how it was made.
type View struct {
	Segments []Segment
	Tokens   int // of all items
	Cap      int // the most it may have
	// Stable is the number of items from the start that stay byte for byte the
	// same in the next view of the epoch. StableTokens is their size.
	Stable       int
	StableTokens int
	// Breakpoints are item counts after which marking a provider's cache is
	// useful, ascending; the last one is Stable. At most four.
	Breakpoints []int
	Opened      string     // why this view opened a new epoch; empty if it did not
	Layers      []LayerUse // in slot order
	History     HistoryUse // what happened to the log
	Notes       []string   // degradations: a failing summariser, shortened results
}

// LayerUse is what a layer received and used in one view.
type LayerUse struct {
	Layer     string    `json:"layer"`
	Authority Authority `json:"authority,omitempty"`
	Placement Placement `json:"placement"` // Anchor or Live, as decided
	Allocated int       `json:"allocated"`
	Used      int       `json:"used"`              // tokens of its present text, wrappers included
	Carried   int       `json:"carried,omitempty"` // tokens of earlier text that an update replaced, still in the prefix
	Yielded   int       `json:"yielded"`           // allocated − used: added to history
	Items     int       `json:"items"`             // its items in the view
	Trimmed   int       `json:"trimmed,omitempty"` // items cut by its own budget
	Skipped   int       `json:"skipped,omitempty"` // items that did not fit the cap
	Update    string    `json:"update,omitempty"`  // "published", "sent" or empty
}

// HistoryUse is what happened to the log in one view.
type HistoryUse struct {
	From     int  `json:"from"`               // index in the conversation of the first item of the contiguous history
	Items    int  `json:"items"`              // log items in the view
	Tokens   int  `json:"tokens"`             // of the log items and the summary; published updates count for their layers
	Budget   int  `json:"budget"`             // tokens available
	Dropped  int  `json:"dropped,omitempty"`  // items of the conversation before From that are not in the view
	Unpaired int  `json:"unpaired,omitempty"` // calls without result and results without call that were left out
	Cut      bool `json:"cut,omitempty"`      // whether this view cut history
}

// All yields the items in order with their bands.
func (v *View) All() iter.Seq2[Band, *Item] {
	return func(yield func(Band, *Item) bool) {
		for i := range v.Segments {
			s := &v.Segments[i]
			for j := range s.Items {
				if !yield(s.Band, &s.Items[j]) {
					return
				}
			}
		}
	}
}

// Items returns the items in order, in a new slice.
func (v *View) Items() []Item {
	items := make([]Item, 0, v.Len())
	for i := range v.Segments {
		items = append(items, v.Segments[i].Items...)
	}
	return items
}

// Len returns the number of items.
func (v *View) Len() int {
	n := 0
	for i := range v.Segments {
		n += len(v.Segments[i].Items)
	}
	return n
}

// AppendText appends the canonical bytes of the view: for each item a byte for
// its author, its text and other parts, and a newline. Two views begin with the
// same bytes if a provider would see the same prompt.
func (v *View) AppendText(dst []byte) []byte {
	for _, it := range v.All() {
		dst = it.AppendText(dst)
	}
	return dst
}
