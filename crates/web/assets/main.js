import * as attach from './attach.js';
import * as forms from './forms.js';
import * as keys from './keys.js';
import * as live from './live.js';
import * as preview from './preview.js';
import * as times from './times.js';
import * as work from './work.js';

forms.begin();
forms.keepDrafts();
attach.begin();
keys.begin();
preview.begin();
work.begin();
times.begin();
live.on('changed', live.refreshSoon);
if (!document.querySelector('[data-thread]')) live.on('removed', live.refreshSoon);
live.begin();
