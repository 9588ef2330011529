/* Load a checkpoint that the build wrote as scripts, because a page that is opened from a folder
   may not fetch files. A description comes first, then the parameters in pieces. */
"use strict";

var Attentively = window.Attentively || (window.Attentively = {});

(function () {
  const descriptions = {}, pieces = {}, loading = {};

  Attentively.describe = (name, description) => { descriptions[name] = description; };
  Attentively.receive = (name, index, base64) => { (pieces[name] ??= [])[index] = base64; };

  function script(address) {
    return new Promise((resolve, reject) => {
      const element = document.createElement("script");
      element.src = address;
      element.onload = resolve;
      element.onerror = () => reject(new Error(`The file ${address} could not be loaded.`));
      document.head.append(element);
    });
  }

  /** IEEE half precision to single precision. */
  function fromHalf(bytes) {
    const halves = new Uint16Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 2);
    return Float32Array.from(halves, (half) => {
      const sign = half & 0x8000 ? -1 : 1, exponent = (half >> 10) & 31, fraction = half & 1023;
      if (exponent === 0) return sign * 2 ** -24 * fraction;
      if (exponent === 31) return fraction ? NaN : sign * Infinity;
      return sign * 2 ** (exponent - 25) * (1024 + fraction);
    });
  }

  async function read(folder, name, progress) {
    await script(`${folder}/${name}.js`);
    const { model, config, vocabulary, merges, tensors, count } = descriptions[name];
    for (let index = 0; index < count; index++) {
      progress(index / count);
      await script(`${folder}/${name}.${index}.js`);
    }
    progress(1);
    const binary = pieces[name].map(atob).join("");
    const bytes = Uint8Array.from(binary, (character) => character.charCodeAt(0));
    delete pieces[name];
    const found = {};
    let offset = 0;
    for (const [tensor, size] of tensors) {
      found[tensor] = fromHalf(bytes.subarray(offset, (offset += 2 * size)));
    }
    return {
      model: new Attentively[model](config, found),
      subwords: new Attentively.Subwords(vocabulary, merges),
    };
  }

  /** Load a checkpoint once; `progress` is called with fractions from 0 to 1. */
  Attentively.load = (folder, name, progress = () => {}) => (
    loading[name] ??= read(folder, name, progress).catch((error) => {
      delete loading[name];
      throw error;
    }));
})();
