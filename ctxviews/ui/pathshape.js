/** What stands on the path from a token to a neuron, and where, in a wide page and in a narrow one.
 *  Of a box: left, top, width; its name, in which _i is an index, and the words under it stand in `boxes`. An arrow is lit with the part that is
 *  named, as are the frame's and the signs' lines. */

/** @typedef {{view: [number, number, number, number], at: Record<string, [number, number, number]>,
 *    arrows: Record<string, string>, signs: Record<string, [number, number, string]>,
 *    frame: [number, number, number, number], key: [number, number]}} Shape
 *  @typedef {{boxes: Record<string, [string, string]>, wide: Shape, narrow: Shape}} Shapes */

export const SHAPES = /** @type {Shapes} */ (
  JSON.parse(`{
  "boxes": {
    "token": ["token x_i", "what"],
    "place": ["position i", "where"],
    "content": ["content(x_i)", "how much it draws"],
    "kernel": ["pos_i", "the kernel"],
    "denominator": ["÷ denominator", "sum of the products"],
    "row": ["row a_i", "attention"],
    "value": ["value v(x_i)", "what it passes on"],
    "neuron": ["neuron j", "its sum"]
  },
  "wide": {
    "view": [-2, -12, 706, 182],
    "at": {
      "token": [0, 8, 96], "place": [0, 118, 96], "content": [150, 8, 118], "kernel": [150, 118, 118],
      "denominator": [334, 118, 140], "row": [334, 63, 140], "value": [334, 8, 140], "neuron": [596, 36, 104]
    },
    "arrows": {
      "content": "M96 28H150M268 28H282C300 28 300 63 300 72",
      "kernel": "M96 138H150M268 138H282C300 138 300 106 300 96",
      "row": "M312 84H334M474 84H500C524 84 530 76 535 68",
      "denominator": "M306 95C312 120 318 138 334 138M404 118V106",
      "value": "M48 8V-9H404V8M474 28H500C524 28 530 36 535 44",
      "neuron": "M552 56H596"
    },
    "signs": { "row": [300, 84, "×"], "value": [541, 56, "Σ"] },
    "frame": [140, -1, 138, 168],
    "key": [209, 90]
  },
  "narrow": {
    "view": [-2, -2, 362, 352],
    "at": {
      "token": [44, 0, 122], "place": [226, 0, 122], "content": [44, 72, 122], "kernel": [226, 72, 122],
      "denominator": [222, 182, 134], "row": [40, 182, 134], "value": [40, 250, 134], "neuron": [222, 306, 134]
    },
    "arrows": {
      "content": "M105 40V72M105 112C105 134 150 144 182 146",
      "kernel": "M287 40V72M287 112C287 134 240 144 208 146",
      "row": "M186 154C178 166 150 168 134 182M174 212C220 216 278 226 287 256",
      "denominator": "M204 154C212 166 244 168 262 182M222 202H174",
      "value": "M44 20H12V270H40M174 270H275",
      "neuron": "M287 282V306"
    },
    "signs": { "row": [195, 148, "×"], "value": [287, 270, "Σ"] },
    "frame": [34, 51, 324, 71],
    "key": [196, 66]
  }
}`)
);
