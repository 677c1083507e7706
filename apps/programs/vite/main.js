import { message } from './message.js';
import './style.css';

const show = text => { document.querySelector('#message').textContent = text; };
show(message);
// A page that is loaded anew has another one.
window.loaded = crypto.randomUUID();
import.meta.hot.accept('./message.js', changed => show(changed.message));
